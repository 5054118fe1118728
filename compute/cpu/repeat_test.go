package cpu

import (
	"sync/atomic"
	"testing"

	"parley/model/weights"
)

// squares is a repeatable task whose workers can be held up.
type squares struct {
	out   []int
	taken [8]int // by worker
	own   [8]int
	// entered gets the worker when it begins to compute, hold keeps it there.
	entered chan int
	hold    chan struct{}
	failing int // the item that panics
	holding atomic.Bool
}

func (s *squares) run(_, from, to int) {
	for i := from; i < to; i++ {
		s.out[i] += i * i
	}
}

func (s *squares) take(worker, item int) { s.taken[worker] = item }

func (s *squares) compute(worker int) {
	if s.holding.Load() {
		s.entered <- worker
		<-s.hold
	}
	if s.taken[worker] == s.failing {
		panic("no square")
	}
	s.own[worker] = s.taken[worker] * s.taken[worker]
}

func (s *squares) deliver(worker int) { s.out[s.taken[worker]] += s.own[worker] }

func newSquares(n int) *squares {
	return &squares{out: make([]int, n), entered: make(chan int, 64), hold: make(chan struct{}), failing: -1}
}

func (s *squares) check(t *testing.T) {
	t.Helper()
	for i, got := range s.out {
		if got != i*i {
			t.Fatalf("item %d of %d gave %d: it was delivered twice or never", i, len(s.out), got)
		}
	}
}

func TestRepeatableItemsAreDeliveredOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 8} {
		p := newPool(threads)
		for n := range 500 {
			job := newSquares(n % 40)
			p.doRepeatable(job, len(job.out))
			job.check(t)
		}
		p.close()
	}
}

// TestCallerOvertakesWorkersThatAreHeldUp ends a task, and does others, while
// a worker still holds an item of it.
func TestCallerOvertakesWorkersThatAreHeldUp(t *testing.T) {
	p := newPool(3)
	defer p.close()
	job := newSquares(100)
	for held := 0; held == 0; held = len(job.entered) {
		clear(job.out)
		job.holding.Store(true)
		p.doRepeatable(job, len(job.out))
		job.check(t)
	}
	next := newSquares(100)
	p.doRepeatable(next, len(next.out))
	next.check(t)
	job.failing = job.taken[<-job.entered] // nobody waits for it any more
	settled := make(chan struct{})
	go func() { p.settle(); close(settled) }()
	select {
	case <-settled:
		t.Error("settled while a worker computes with memory of a task that is over")
	default:
	}
	close(job.hold)
	<-settled
	job.check(t)
	p.doRepeatable(next, 0)
}

func TestRepeatableItemsCarryPanics(t *testing.T) {
	p := newPool(4)
	defer p.close()
	for range 50 {
		job := &failingSquares{newSquares(50)}
		job.failing = 20
		if reason := recovered(func() { p.doRepeatable(job, 50) }); reason != "no square" {
			t.Fatalf("recovered %v", reason)
		}
	}
}

// failingSquares panics whoever does the item.
type failingSquares struct{ *squares }

func (s *failingSquares) run(_, from, to int) {
	for i := from; i < to; i++ {
		if i == s.failing {
			panic("no square")
		}
	}
}

func recovered(f func()) (reason any) {
	defer func() { reason = recover() }()
	f()
	return nil
}

// TestOvertakenOrNot compares multiplications that workers did beside one
// another with those that one thread did.
func TestOvertakenOrNot(t *testing.T) {
	for _, dtype := range []weights.DType{weights.Q8_0, weights.Q4_0, weights.F16, weights.F32} {
		for _, rows := range []int{1, 5, redoRows} {
			job := newRowwise(dtype).scenario(rows)
			want := job.on(t, Options{Threads: 1})
			for range 20 {
				if err := sameBits(job.on(t, Options{Threads: 4}), want); err != nil {
					t.Fatalf("%v, %d rows: %v", dtype, rows, err)
				}
			}
		}
	}
}
