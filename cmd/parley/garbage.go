package main

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// garbageRoom is how much memory may be garbage before it is collected. By
	// itself Go collects when there is as much garbage as there is memory in use: a
	// gateway without a model of its own uses little, and would collect many times
	// a second under load, each time looking through the stacks of all requests;
	// with thousands of streams open, as much garbage again would stand beside them.
	garbageRoom = 48 << 20
	// percentMin and percentMax bound the garbage by the memory in use. Processes
	// that use more than largeHeap are left to Go's own rule.
	percentMin, percentMax = 25, 800
	largeHeap              = 256 << 20
	// lookEvery is how many requests come between two looks at the memory in use.
	lookEvery = 64
)

// A governor gives garbage its room, and memory back to the system when there is little to
// do after much. GOGC still has the last word.
//
// It looks at the memory in use after every collection and every few requests, and not by
// the clock: thousands of streams may open within a second, and the room that was right
// before them is several times too large. Of a collection it hears late when there is much
// else to do.
type governor struct {
	requests atomic.Uint64
	busy     chan struct{}
}

func newGovernor() *governor { return &governor{busy: make(chan struct{}, 1)} }

// run governs until ctx ends.
func (g *governor) run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent, collected := 100, nextCollection()
	clock := time.NewTicker(restEvery)
	defer clock.Stop()
	var pause rest
	for {
		if want := garbagePercent(heapInUse()); want != percent { // setting it stops all for a moment
			percent = want
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
			collected = nextCollection()
		case <-g.busy:
		case <-clock.C:
			if allocated, spare := spareMemory(); pause.due(allocated, spare) {
				giveBack()
				pause.settle(spareMemory())
			}
		}
	}
}

// counting reports to the governor the requests that a handler gets.
func (g *governor) counting(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.requests.Add(1)%lookEvery == 0 {
			select {
			case g.busy <- struct{}{}:
			default:
			}
		}
		to.ServeHTTP(w, r)
	})
}

// nextCollection returns a channel that is closed by the next garbage collection,
// through the cleanup of an unreachable value.
func nextCollection() <-chan struct{} {
	collected := make(chan struct{})
	runtime.AddCleanup(new([64]byte), func(collected chan struct{}) { close(collected) }, collected)
	return collected
}

// heapInUse is what the last collection left and looked through, in bytes: what Go takes
// its percentage of.
func heapInUse() (sum uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	for i := range samples {
		sum += samples[i].Value.Uint64()
	}
	return sum
}

// garbagePercent is how much garbage there may be beside inUse bytes, in steps of 25 %.
func garbagePercent(inUse uint64) int {
	if inUse > largeHeap {
		return 100
	}
	return int(min(max(100*garbageRoom/max(inUse, 1)/25*25, percentMin), percentMax))
}

const (
	// restEvery is how often it is looked whether there is little to do, and restFor
	// how many times in a row there must be.
	restEvery = 10 * time.Second
	restFor   = 3
	// restBytes is how much is allocated at most between two looks when there is
	// little to do; restGain is how much memory is worth being given back.
	restBytes = 4 << 20
	restGain  = 32 << 20
)

// A rest decides when memory is given back: what thousands of requests have left behind
// would otherwise stay for minutes, as nothing is collected while nothing is
// allocated. It has no clock. The zero value is that of a process that has just begun.
type rest struct {
	// quiet is how many looks in a row there was little to do.
	quiet int
	// allocated is the sum of all that had been allocated at the last look; left is
	// what was still spare when some was given back, which more of the same would not
	// change.
	allocated, left uint64
}

// due reports whether memory is to be given back, after a look at the sum of all that was
// ever allocated and at how much is spare.
func (r *rest) due(allocated, spare uint64) bool {
	if allocated-r.allocated > restBytes {
		r.quiet = 0
	} else {
		r.quiet++
	}
	r.allocated = allocated
	return r.quiet >= restFor && spare >= r.left+restGain
}

// settle notes what is still spare when some was given back.
func (r *rest) settle(allocated, spare uint64) { *r = rest{allocated: allocated, left: spare} }

// spareMemory returns the sum of all that was ever allocated, and how much of the memory
// that was taken from the system is not known to be in use: the last collection has not
// found it so.
func spareMemory() (allocated, spare uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	for _, s := range samples[2:] {
		spare += s.Value.Uint64()
	}
	return samples[0].Value.Uint64(), spare - min(spare, samples[1].Value.Uint64())
}

// giveBack gives the system all memory that is not in use. Buffers that are kept for the
// next request outlive one collection.
func giveBack() {
	runtime.GC()
	debug.FreeOSMemory()
}
