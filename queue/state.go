package queue

import "parley"

// Totals count how entries ended, by tier.
type Totals struct {
	Pushed, Refused, Displaced, Expired, Cancelled, Dispatched, Finished uint64
}

// A Queue holds the entries for one model and pool of workers. It is not safe for concurrent use:
// the caller must lock it.
type Queue struct {
	cfg          Config
	tiers        [parley.Classes]tier
	floor        float64 // the virtual time at which the last tier was served
	deadlines    heap[*Entry]
	waiting      int
	work         int
	arrivals     uint64
	output       mean                // tokens of a continuation, of all tenants
	running      int                 // begun, not ended
	begun        [parley.Classes]int // the same by tier
	known        int                 // workers, when there last were any
	intake       intake
	pace         pace
	runningLimit runningLimit
	gaps         gaps // promised to what is being written
	shed         shedder
	away         away
	totals       [parley.Classes]Totals
}
