package worker

import (
	"iter"
	"time"

	"parley"
	"parley/route/kvindex"
)

// A Status is how an engine is, as far as it says. Zero fields were not told.
type Status struct {
	// Version is the engine's own.
	Version string
	// Models are what it serves. Adapters are those of them, by its own names, that
	// are a model with something added.
	Models   []parley.Model
	Adapters []string
	// Running and Waiting count requests; Seats is how many it computes at once.
	Running, Waiting, Seats int
	// KVUse is the share of the memory for keys and values in use, 0 to 1.
	// CapacityBlocks is how many blocks of BlockTokens it holds.
	KVUse                       float64
	CapacityBlocks, BlockTokens int
	// BusySeconds is how long it has computed since it began, Preemptions how often
	// a request lost its memory meanwhile.
	BusySeconds float64
	Preemptions uint64
	// ReadySeconds is how long its model took to load, at the start or when it was last woken.
	ReadySeconds float64
	// Sleeping engines have given their memory back and must be woken.
	Sleeping bool
	// Draining engines finish what they have and take nothing new.
	Draining bool
	// MoveWithin is after what time other workers should have taken over the answers of a
	// Parley worker that is draining; 0 if it lets all finish.
	MoveWithin time.Duration
	// Instance is another one after each start of a Parley worker.
	Instance string
	// Format is the digest of what the bytes of a Parley worker's blocks depend on, empty
	// if they cannot be fetched, BlockBytes their size, and Place where it can share memory.
	Format     string
	BlockBytes int
	Place      string
	// Role is the part of requests that it was started for.
	Role parley.WorkerRole
	// Pool is the pool that a Parley worker was started for.
	Pool string
	// Device is the GPU that a Parley worker computes on.
	Device *parley.DeviceState
}

// A Listener is told of a worker's events, by one goroutine. Its functions
// mostly are those of a [kvindex.Index], under its owner's lock; what they
// return is asked of the worker.
type Listener struct {
	// Connected: what comes next is from a new connection; before it batches may
	// be missing, and the worker may be another process.
	Connected func()
	// Batch: the worker published or repeated a batch.
	Batch func(kvindex.Batch) kvindex.Ask
	// ReplayEnded: all that the worker can repeat was given to Batch.
	ReplayEnded func() kvindex.Ask
	// Snapshot: this is all the worker held after batch seq.
	Snapshot func(seq uint64, blocks iter.Seq[kvindex.Event]) kvindex.Ask
	// Wants: what is still missing, to be asked for again.
	Wants func() kvindex.Ask
	// Lost: the connection ended, or could not be made.
	Lost func(error)
}
