package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbageRoom is how much memory may be garbage before it is collected. By
	// itself Go collects when there is as much garbage as there is memory in use: a
	// gateway without a model of its own uses little, and would collect many times
	// a second under load, each time looking through the stacks of all requests.
	garbageRoom = 64 << 20
	// percentMax bounds how many times the memory in use the garbage may be.
	percentMax = 800
	// gaugeEvery is how often it is looked how much is in use.
	gaugeEvery = 5 * time.Second
)

// leaveGarbage gives garbage its room until ctx ends. A process that uses more
// than the room collects as Go does by itself, and GOGC still has the last word.
func leaveGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	tick := time.NewTicker(gaugeEvery)
	defer tick.Stop()
	for {
		debug.SetGCPercent(garbagePercent(heapInUse()))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// heapInUse is what the last collection left, in bytes.
func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// garbagePercent is how much garbage there may be beside so much in use.
func garbagePercent(inUse uint64) int {
	return int(min(max(100*garbageRoom/max(inUse, 1), 100), percentMax))
}
