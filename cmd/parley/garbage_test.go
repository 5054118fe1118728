package main

import (
	"runtime"
	"testing"
	"time"
)

func TestGarbageHasItsRoom(t *testing.T) {
	for inUse, want := range map[uint64]int{0: percentMax, 1 << 20: percentMax, 16 << 20: 300, 32 << 20: 150, 48 << 20: 100, 96 << 20: 50, largeHeap: percentMin, 8 << 30: 100} {
		if got := garbagePercent(inUse); got != want {
			t.Errorf("with %d bytes in use: %d percent, want %d", inUse, got, want)
		}
	}
	if heapInUse() > 1<<40 {
		t.Error("what is in use was misread")
	}
}

func TestEveryCollectionIsSeen(t *testing.T) {
	for range 3 {
		collected := nextCollection()
		runtime.GC()
		select {
		case <-collected:
		case <-time.After(time.Minute):
			t.Fatal("garbage was collected, and nobody was told")
		}
	}
}
