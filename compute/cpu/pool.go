package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A task is work that can be done in any number of pieces.
type task interface {
	// run does the pieces from..to. worker says who does it, so that
	// each can have scratch memory of its own.
	run(worker, from, to int)
}

// How long a thread that waits stays awake: about 50 µs, longer than the gaps
// between the operations of a step, and nothing beside the wait of an idle server.
const (
	spinRounds   = 200
	spinPauses   = 4 // about 250 ns
	yieldAtRound = 16
)

// A pool does tasks with several goroutines, one of which is the caller.
//
// Pieces are claimed one by one from a counter, so a thread that the system
// has taken away delays the others by the one piece it holds, and one that has not
// woken up yet by nothing. Workers wait for the next task awake for a short
// while and then asleep.
type pool struct {
	// claims holds the number of items of the current task in its upper half
	// and the next one to do in its lower half. Whoever has claimed an item
	// may read task, pieces and grain: they change only when all items are done.
	claims atomic.Uint64
	_      [56]byte
	done   atomic.Int64 // items of the current task that are done
	_      [56]byte

	threads       int // the caller included
	task          task
	pieces, grain int
	failure       atomic.Pointer[failure]

	waiting  atomic.Bool   // the caller sleeps until finished
	finished chan struct{} // may bring a signal too many, never too few
	parked   atomic.Int32  // workers that sleep until wake, less signals sent
	wake     chan struct{}
	closing  atomic.Bool
	workers  sync.WaitGroup
}

// A failure is what a piece panicked with.
type failure struct{ reason any }

// newPool returns a pool of the given number of threads, the caller included.
func newPool(threads int) *pool {
	p := &pool{threads: threads, finished: make(chan struct{}, 1), wake: make(chan struct{}, threads)}
	for worker := 1; worker < threads; worker++ {
		p.workers.Go(func() { p.serve(worker) })
	}
	return p
}

// close ends the workers. No task may be running.
func (p *pool) close() {
	p.closing.Store(true)
	p.wakeUp(p.threads)
	p.workers.Wait()
}

// do runs t over the given number of pieces, grain of them at a time. If a
// piece panics, do panics with the same value when all others are done.
func (p *pool) do(t task, pieces, grain int) {
	items := (pieces + grain - 1) / grain
	if items <= 1 || p.threads == 1 {
		if pieces > 0 {
			t.run(0, 0, pieces)
		}
		return
	}
	p.task, p.pieces, p.grain = t, pieces, grain
	p.done.Store(0)
	p.claims.Store(uint64(items) << 32)
	p.wakeUp(items - 1)
	p.drain(0)
	p.awaitItems(int64(items))
	p.task = nil
	if f := p.failure.Swap(nil); f != nil {
		panic(f.reason)
	}
}

func (p *pool) serve(worker int) {
	for p.awaitTask() {
		p.drain(worker)
	}
}

// drain does items until none is left to claim.
func (p *pool) drain(worker int) {
	for {
		claims := p.claims.Load()
		item, items := int(uint32(claims)), int(claims>>32)
		if item >= items {
			return
		}
		if p.claims.CompareAndSwap(claims, claims+1) {
			p.perform(worker, item, int64(items))
		}
	}
}

func (p *pool) perform(worker, item int, items int64) {
	defer p.settle(items)
	from := item * p.grain
	p.task.run(worker, from, min(from+p.grain, p.pieces))
}

// settle counts an item as done, whether it returned or panicked.
func (p *pool) settle(items int64) {
	if reason := recover(); reason != nil {
		p.failure.CompareAndSwap(nil, &failure{reason})
	}
	if p.done.Add(1) == items && p.waiting.Swap(false) {
		p.finished <- struct{}{}
	}
}

// awaitItems waits until all items are done.
func (p *pool) awaitItems(items int64) {
	for range spinRounds {
		if p.done.Load() == items {
			return
		}
		pause(spinPauses)
	}
	for p.done.Load() != items {
		p.waiting.Store(true)
		if p.done.Load() == items && p.waiting.Swap(false) {
			return
		}
		<-p.finished
	}
}

func (p *pool) available() bool {
	claims := p.claims.Load()
	return uint32(claims) < uint32(claims>>32)
}

// awaitTask returns true when there may be something to do, and false when the
// pool closes.
func (p *pool) awaitTask() bool {
	for round := range spinRounds {
		if p.closing.Load() {
			return false
		}
		if p.available() {
			return true
		}
		if round%yieldAtRound == yieldAtRound-1 {
			runtime.Gosched()
		}
		pause(spinPauses)
	}
	p.parked.Add(1)
	stay := p.available() || p.closing.Load()
	if !stay || !p.takeParked() {
		<-p.wake
	}
	return !p.closing.Load()
}

// takeParked takes one worker off the count of sleepers, if there is one.
func (p *pool) takeParked() bool {
	for {
		n := p.parked.Load()
		if n == 0 {
			return false
		}
		if p.parked.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// wakeUp wakes up to n sleeping workers.
func (p *pool) wakeUp(n int) {
	for range n {
		if !p.takeParked() {
			return
		}
		p.wake <- struct{}{}
	}
}
