package gctune

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

func TestGarbageHasItsRoom(t *testing.T) {
	for inUse, want := range map[uint64]int{0: percentMax, 1 << 20: percentMax, 16 << 20: 300, 32 << 20: 140,
		48 << 20: 100, 64 << 20: 40, 96 << 20: percentMin, largeHeap: percentMin, 8 << 30: 100} {
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

// TestRequestsAreLookedAt has the tuner look when a number of requests has come,
// though nothing was collected.
func TestRequestsAreLookedAt(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	g := New()
	handler := g.Count(http.NotFoundHandler())
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
	var running sync.WaitGroup
	running.Go(func() { g.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for deadline := time.Now().Add(time.Minute); len(g.busy) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not look")
		}
	}
}

// TestMemoryIsGivenBackAtRest goes through the looks of a day: what is allocated between
// two of them, and what is spare at the second, in MB.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	type look struct{ allocates, spare uint64 }
	for name, day := range map[string]struct {
		looks []look
		due   int // the look at which memory is given back; -1 is at none
	}{
		"nothing happens":   {[]look{{20, 10}, {1, 11}, {1, 12}, {1, 13}, {1, 14}, {1, 15}}, -1},
		"a burst, and rest": {[]look{{20, 10}, {160, 90}, {1, 90}, {1, 90}, {1, 90}, {1, 90}}, 4},
		"a burst in bits":   {[]look{{20, 10}, {160, 90}, {1, 90}, {9, 90}, {1, 90}, {1, 90}, {1, 90}}, 6},
		"steady load":       {[]look{{20, 10}, {500, 60}, {500, 60}, {500, 60}, {500, 60}, {500, 60}}, -1},
		"hardly any load": {[]look{{20, 10}, {3, 13}, {3, 16}, {3, 19}, {3, 22}, {3, 25}, {3, 28}, {3, 31},
			{3, 34}, {3, 37}}, 8},
		"too little to bother": {[]look{{20, 10}, {160, 31}, {1, 31}, {1, 31}, {1, 31}, {1, 31}}, -1},
	} {
		var r idleDetector
		allocated, due := uint64(0), -1
		for i, l := range day.looks {
			allocated += l.allocates << 20
			if r.due(allocated, l.spare<<20) && due < 0 {
				due = i
			}
		}
		if due != day.due {
			t.Errorf("%s: given back at look %d, want %d", name, due, day.due)
		}
	}
	r := idleDetector{quiet: idleLooks}
	r.settle(200<<20, 40<<20) // so much cannot be given back
	for range 2 * idleLooks {
		if r.due(200<<20, 60<<20) {
			t.Error("it tries in vain, again and again")
		}
	}
	if !r.due(201<<20, 80<<20) {
		t.Error("what can be given back the second time is not")
	}
}

// TestGivingBackIsSeenByTheSystem tries a few times, as the runtime gives memory back by
// itself, too.
func TestGivingBackIsSeenByTheSystem(t *testing.T) {
	for range 20 {
		for range 64 {
			heldInTest = append(heldInTest, make([]byte, 1<<20))
		}
		runtime.GC()
		_, before := spareMemory()
		heldInTest = nil
		runtime.GC()
		_, much := spareMemory()
		returnMemory()
		_, after := spareMemory()
		if much >= before+32<<20 && after+32<<20 <= much {
			return
		}
		t.Logf("%d MB are spare, with 64 more %d, and %d when they were given back", before>>20, much>>20, after>>20)
	}
	t.Error("what is given back is still there")
}

// heldInTest keeps memory in use.
var heldInTest [][]byte
