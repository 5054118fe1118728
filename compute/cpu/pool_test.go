package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"

	"parley/model/weights"
)

// tally counts how often each piece is done, and panics at one of them.
type tally struct {
	counts  []atomic.Int32
	panicAt int
	yield   bool
}

func newTally(pieces int) *tally { return &tally{counts: make([]atomic.Int32, pieces), panicAt: -1} }

func (t *tally) run(_, from, to int) {
	for i := from; i < to; i++ {
		t.counts[i].Add(1)
		if t.yield {
			runtime.Gosched()
		}
		if i == t.panicAt {
			panic("piece failed")
		}
	}
}

func (t *tally) check(tb testing.TB) {
	tb.Helper()
	for i := range t.counts {
		if n := t.counts[i].Load(); n != 1 {
			tb.Fatalf("piece %d of %d was done %d times", i, len(t.counts), n)
		}
	}
}

func TestPoolDoesEveryPieceOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8, 64} {
		p := newPool(threads)
		r := newRand(uint64(threads))
		for range 2000 / (1 + threads/16) {
			job := newTally(r.IntN(50))
			job.yield = r.IntN(4) == 0
			p.do(job, len(job.counts), 1+r.IntN(5))
			job.check(t)
		}
		p.close()
	}
}

func TestPoolWakesSleepingWorkers(t *testing.T) {
	p := newPool(3)
	defer p.close()
	for range 20 {
		for p.parked.Load() != 2 {
			runtime.Gosched()
		}
		job := newTally(64)
		job.yield = true
		p.do(job, 64, 1)
		job.check(t)
	}
}

// TestSharedThreads computes on two backends in turn that use the same
// threads, then closes one of them and goes on with the other.
func TestSharedThreads(t *testing.T) {
	first, err := New(Options{Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	second, err := New(Options{Share: first})
	if err != nil {
		t.Fatal(err)
	}
	if n := runtime.NumGoroutine(); n != goroutines || len(second.workers) != 3 {
		t.Errorf("a backend that shares has %d threads and started %d goroutines", len(second.workers), n-goroutines)
	}
	big, small := newRowwise(weights.Q8_0).scenario(70), newRowwise(weights.F16).scenario(3)
	wantBig, wantSmall := big.on(t, Options{Threads: 1}), small.on(t, Options{Threads: 1})
	for range 3 {
		if err := sameBits(big(bench{TB: t, Backend: first}), wantBig); err != nil {
			t.Error(err)
		}
		if err := sameBits(small(bench{TB: t, Backend: second}), wantSmall); err != nil {
			t.Error(err)
		}
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := sameBits(big(bench{TB: t, Backend: first}), wantBig); err != nil {
		t.Errorf("after the other was closed: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

func TestPoolCarriesPanicsToTheCaller(t *testing.T) {
	for _, threads := range []int{1, 4} {
		p := newPool(threads)
		for i := range 50 {
			job := newTally(50)
			job.panicAt = i
			failure := func() (failure any) {
				defer func() { failure = recover() }()
				p.do(job, len(job.counts), 1)
				return nil
			}()
			if failure != "piece failed" {
				t.Fatalf("%d threads, piece %d: recovered %v", threads, i, failure)
			}
			after := newTally(50)
			p.do(after, 50, 1)
			after.check(t)
		}
		p.close()
	}
}
