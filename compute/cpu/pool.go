package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A task is work that can be done in any number of pieces.
type task interface {
	// run does the pieces from..to. worker says who does it, so that
	// each can have scratch memory of its own.
	run(worker, from, to int)
}

// How long threads that wait stay awake.
const (
	// workerSpin is how long a worker waits for the next task: longer than the
	// gaps between the operations of a step and between steps, because it
	// takes the system about as long as an operation to wake a thread. To an
	// idle server it is nothing.
	workerSpin = 200 * time.Microsecond
	// callerSpin is how long the caller waits for the last items, beyond the
	// time that one takes. Whoever is later has most likely been taken off its
	// core, and gets the caller's if that sleeps.
	callerSpin = 30 * time.Microsecond
	// spinPauses is for how many pauses a waiting thread looks away, about 100 ns.
	spinPauses = 4
	// clockRounds is how often it looks before it asks for the time and lets
	// other goroutines run.
	clockRounds = 16
)

// A pool does tasks with several goroutines, one of which is the caller.
//
// Items are claimed one by one from a counter, so a thread that has not woken
// up yet delays the others by nothing, and one that the system has taken away
// by the one item it holds. As that can take milliseconds, and happens again
// and again while another process uses the core, such a worker is not waited
// for again: it stays away for a while (see [absence]).
type pool struct {
	// claims holds the number of items of the current task in its upper half
	// and the next one to do in its lower half. Whoever has claimed an item
	// may read task, pieces and grain: they change only when all items are done.
	claims atomic.Uint64
	_      [56]byte
	done   atomic.Int64 // items of the current task that are done
	_      [56]byte

	task          task
	pieces, grain int
	failure       atomic.Pointer[failure]

	waiting  atomic.Bool   // the caller sleeps until finished
	finished chan struct{} // may bring a signal too many, never too few
	parked   atomic.Int32  // workers that sleep until wake, less signals sent
	wake     chan struct{}
	helpers  []helper // one for each worker; the caller's is not used
	away     int      // how many helpers are away
	trials   int      // how many are back on trial
	now      func() time.Duration
	switches func() int64 // how often threads were taken off their cores
	closing  atomic.Bool
	workers  sync.WaitGroup
}

// A helper is what the caller knows about a worker.
type helper struct {
	holding atomic.Bool   // it has claimed items and not reported them done
	away    atomic.Bool   // it claims nothing
	back    chan struct{} // ends its sleep when it is away no more
	absence absence       // only the caller looks at it
	late    bool          // the caller went to sleep while it held an item; likewise
	_       [64]byte
}

// A failure is what a piece panicked with.
type failure struct{ reason any }

// newPool returns a pool of the given number of threads, the caller included.
func newPool(threads int) *pool {
	start := time.Now()
	return newPoolWithClock(threads, func() time.Duration { return time.Since(start) }, switches)
}

func newPoolWithClock(threads int, now func() time.Duration, switches func() int64) *pool {
	p := &pool{
		finished: make(chan struct{}, 1), wake: make(chan struct{}, threads),
		helpers: make([]helper, threads), now: now, switches: switches,
	}
	for worker := 1; worker < threads; worker++ {
		p.helpers[worker].back = make(chan struct{}, 1)
		p.workers.Go(func() { p.serve(worker) })
	}
	return p
}

// close ends the workers. No task may be running.
func (p *pool) close() {
	p.closing.Store(true)
	for worker := 1; worker < len(p.helpers); worker++ {
		p.recall(&p.helpers[worker])
	}
	p.wakeUp(len(p.helpers))
	p.workers.Wait()
}

// do runs t over the given number of pieces, grain of them at a time. If a
// piece panics, do panics with the same value when all others are done.
func (p *pool) do(t task, pieces, grain int) {
	items := (pieces + grain - 1) / grain
	p.review()
	if items <= 1 || p.away == len(p.helpers)-1 {
		if pieces > 0 {
			t.run(0, 0, pieces)
		}
		return
	}
	p.task, p.pieces, p.grain = t, pieces, grain
	p.done.Store(0)
	p.claims.Store(uint64(items) << 32)
	p.wakeUp(items - 1)
	start := p.now()
	own := p.drain(0)
	if p.done.Load() != int64(items) {
		now := p.now()
		p.awaitItems(int64(items), now, (now-start)/time.Duration(max(1, own)))
	}
	p.task = nil
	if f := p.failure.Swap(nil); f != nil {
		panic(f.reason)
	}
}

func (p *pool) serve(worker int) {
	h := &p.helpers[worker]
	for p.awaitTask(h) {
		h.holding.Store(true)
		p.drain(worker)
		h.holding.Store(false)
	}
}

// drain does items until none is left to claim, and returns how many it did.
func (p *pool) drain(worker int) (own int) {
	items := int64(0) // of one task: it does not end before those done here are reported
	for p.available() {
		claims := p.claims.Add(1) - 1
		item := int64(uint32(claims))
		if item >= int64(claims>>32) {
			break
		}
		items = int64(claims >> 32)
		p.perform(worker, int(item))
		own++
	}
	if own > 0 && p.done.Add(int64(own)) == items && p.waiting.Swap(false) {
		p.finished <- struct{}{}
	}
	return own
}

func (p *pool) perform(worker, item int) {
	defer p.catch()
	from := item * p.grain
	p.task.run(worker, from, min(from+p.grain, p.pieces))
}

// catch keeps what an item panicked with.
func (p *pool) catch() {
	if reason := recover(); reason != nil {
		p.failure.CompareAndSwap(nil, &failure{reason})
	}
}

// awaitItems waits until all items are done. It has waited since the given
// time, and items take as long as one.
func (p *pool) awaitItems(items int64, since, one time.Duration) {
	for round := 1; ; round++ {
		if p.done.Load() == items {
			return
		}
		pause(spinPauses)
		if round%clockRounds == 0 && p.now()-since > callerSpin+one {
			break
		}
	}
	p.noteLate()
	for p.done.Load() != items {
		p.waiting.Store(true)
		if p.done.Load() == items && p.waiting.Swap(false) {
			break
		}
		<-p.finished
	}
	if now := p.now(); now-since > stallTime+stallItems*one {
		p.sendLateAway(now)
	}
}

// available reports whether there is an item to claim.
func (p *pool) available() bool {
	claims := p.claims.Load()
	return uint32(claims) < uint32(claims>>32)
}

// awaitTask returns true when there may be something to do, and false when the
// pool closes.
func (p *pool) awaitTask(h *helper) bool {
	start := p.now()
	for round := 1; ; round++ {
		for h.away.Load() {
			<-h.back
		}
		if p.closing.Load() {
			return false
		}
		if p.available() {
			return true
		}
		pause(spinPauses)
		if round%clockRounds == 0 {
			runtime.Gosched()
			if p.now()-start > workerSpin {
				break
			}
		}
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
