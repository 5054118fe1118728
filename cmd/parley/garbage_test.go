package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
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

// TestRequestsAreLookedAt has the governor look when a number of requests has come,
// though nothing was collected.
func TestRequestsAreLookedAt(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	g := newGovernor()
	handler := g.counting(http.NotFoundHandler())
	for range lookEvery - 1 {
		handler.ServeHTTP(httptest.NewRecorder(), &http.Request{})
	}
	if len(g.busy) != 0 {
		t.Error("it looks before there is anything to see")
	}
	for range 3 * lookEvery { // more than it could look
		handler.ServeHTTP(httptest.NewRecorder(), &http.Request{})
	}
	if len(g.busy) != 1 {
		t.Error("nobody told it of the requests")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := inBackground(ctx, g.run)
	defer stop()
	for deadline := time.Now().Add(time.Minute); len(g.busy) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not look")
		}
	}
}
