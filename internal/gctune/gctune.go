// Package gctune tunes the garbage collector of a server: how much garbage may pile
// up beside the memory in use, and when memory that is no longer needed goes back to
// the system. What it decides is in functions without a clock; [Tuner.Run] reads the
// runtime's metrics and acts.
package gctune

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
	// garbageBytes is how much memory may be garbage before it is collected. By
	// itself Go collects when there is as much garbage as there is memory in use: a
	// gateway without a model of its own uses little, and would collect many times
	// a second under load, each time looking through the stacks of all requests;
	// with thousands of streams open, as much garbage again would stand beside them.
	garbageBytes = 48 << 20
	// percentMin and percentMax bound the garbage by the memory in use. Processes
	// that use more than largeHeap are left to Go's own rule.
	percentMin, percentMax = 20, 800
	largeHeap              = 256 << 20
	// lookEvery is how many requests come between two looks at the memory in use.
	lookEvery = 64
)

// A Tuner bounds garbage by the memory in use, and returns memory to the system when the
// server is idle after a burst. If GOGC is set, it does nothing.
//
// It reads the memory in use after every collection and every lookEvery requests, not on a
// clock: thousands of streams may open within a second, and the bound that was right
// before them is several times too large. Under load the cleanup that reports a collection
// runs late.
type Tuner struct {
	requests atomic.Uint64
	busy     chan struct{}
}

// New returns a tuner; [Tuner.Run] starts it.
func New() *Tuner { return &Tuner{busy: make(chan struct{}, 1)} }

// Run tunes until ctx ends.
func (t *Tuner) Run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent, collected := 100, nextCollection()
	clock := time.NewTicker(idleEvery)
	defer clock.Stop()
	var idle idleDetector
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
		case <-t.busy:
		case <-clock.C:
			if allocated, spare := spareMemory(); idle.due(allocated, spare) {
				returnMemory()
				idle.settle(spareMemory())
			}
		}
	}
}

// Count wraps a handler so that the tuner sees its requests.
func (t *Tuner) Count(to http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if t.requests.Add(1)%lookEvery == 0 {
			select {
			case t.busy <- struct{}{}:
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

// garbagePercent is how much garbage there may be beside inUse bytes, in steps of percentMin. Where more than
// garbageBytes are in use, most of that are streams: the more there are, the less garbage stands beside them.
func garbagePercent(inUse uint64) int {
	if inUse > largeHeap {
		return 100
	}
	percent := 100 * garbageBytes / max(inUse, 1)
	if percent < 100 {
		percent = percent * percent / 100
	}
	return int(min(max(percent/percentMin*percentMin, percentMin), percentMax))
}

const (
	// idleEvery is how often the detector looks, and idleLooks
	// how many looks in a row must find the server idle.
	idleEvery = 10 * time.Second
	idleLooks = 3
	// idleBytes is the most that an idle server allocates between two looks; returnMin is how much
	// memory is worth returning.
	idleBytes = 4 << 20
	returnMin = 32 << 20
)

// An idleDetector decides when memory is returned to the system: garbage of thousands of
// requests would otherwise stay for minutes, because nothing is collected while nothing is
// allocated. It has no clock. The zero value is that of a process that has just started.
type idleDetector struct {
	// quiet is how many looks in a row there was little to do.
	quiet int
	// allocated is the sum of all that had been allocated at the last look; left is
	// what was still spare when some was given back, which more of the same would not
	// change.
	allocated, left uint64
}

// due reports whether memory is to be given back, after a look at the sum of all that was
// ever allocated and at how much is spare.
func (r *idleDetector) due(allocated, spare uint64) bool {
	if allocated-r.allocated > idleBytes {
		r.quiet = 0
	} else {
		r.quiet++
	}
	r.allocated = allocated
	return r.quiet >= idleLooks && spare >= r.left+returnMin
}

// settle notes what is still spare when some was given back.
func (r *idleDetector) settle(allocated, spare uint64) {
	*r = idleDetector{allocated: allocated, left: spare}
}

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

// returnMemory returns to the system all memory that is not in use. Buffers that are kept for the
// next request outlive one collection.
func returnMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
