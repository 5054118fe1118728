package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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
)

// leaveGarbage gives garbage its room until ctx ends. GOGC still has the last
// word. It looks again after every collection, and not by the clock: thousands of
// streams may open within a second, and the room that was right before them is
// several times too large.
func leaveGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	percent := 100
	for {
		collected := nextCollection()
		if want := garbagePercent(heapInUse()); want != percent { // setting it stops all for a moment
			percent = want
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
	}
}

// nextCollection returns a channel that is closed when garbage has been collected:
// something that nobody holds is gone then.
func nextCollection() <-chan struct{} {
	collected := make(chan struct{})
	runtime.AddCleanup(new([64]byte), func(collected chan struct{}) { close(collected) }, collected)
	return collected
}

// heapInUse is what the last collection left, in bytes.
func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// garbagePercent is how much garbage there may be beside so much in use, in steps
// of 25 %.
func garbagePercent(inUse uint64) int {
	if inUse > largeHeap {
		return 100
	}
	return int(min(max(100*garbageRoom/max(inUse, 1)/25*25, percentMin), percentMax))
}
