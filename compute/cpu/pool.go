package cpu

import (
	"runtime"
	"runtime/debug"
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
	// time that one takes. A thread that is later has most likely been
	// preempted, and gets the caller's core if that sleeps.
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
// and again while another process uses the core, the caller does the item
// itself if the task is repeatable (see [repeatable]). Else it has to wait, and
// does such tasks without that worker for a while (see [straggler]).
type pool struct {
	// claims holds the number of items of the current task in its upper half
	// and the next one to do in its lower half. A thread that has claimed an item
	// may read task, repeat, pieces and grain: they change only when all items are done.
	claims atomic.Uint64
	_      [56]byte
	done   atomic.Int64 // items of the current task that are done
	_      [56]byte

	task          task
	repeat        repeatable // the task, if its items are done as such
	pieces, grain int
	failure       atomic.Pointer[failure]
	callersCore   atomic.Int32 // when it last overtook a worker

	waiting  atomic.Bool   // the caller sleeps until finished
	finished chan struct{} // may bring a signal too many, never too few
	parked   atomic.Int32  // workers that sleep until wake, less signals sent
	wake     chan struct{}
	helperSet
	closing atomic.Bool
	workers sync.WaitGroup
}

// A helperSet has the helpers, and counts those that were taken off their cores. Only the caller
// changes it.
type helperSet struct {
	helpers  []helper // one for each worker; the caller's is not used
	away     int      // how many helpers are away
	trials   int      // how many are back on trial
	now      func() time.Duration
	switches func() int64 // how often threads were taken off their cores
}

// repeatBit marks claims of a repeatable task.
const repeatBit = 1 << 63

// split returns the number of items, the next one, and whether the task is repeatable.
func split(claims uint64) (items, next int64, repeatable bool) {
	return int64(claims &^ repeatBit >> 32), int64(uint32(claims)), claims&repeatBit != 0
}

// A helper is what the caller knows about a worker.
type helper struct {
	stage   atomic.Uint64 // what the worker does, see [stage]
	away    atomic.Bool   // it claims items of repeatable tasks only
	absence straggler     // only the caller looks at it
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
		finished:  make(chan struct{}, 1),
		wake:      make(chan struct{}, threads),
		helperSet: helperSet{helpers: make([]helper, threads), now: now, switches: switches},
	}
	for worker := 1; worker < threads; worker++ {
		p.workers.Go(func() { p.serve(worker) })
	}
	return p
}

// close ends the workers. No task may be running.
func (p *pool) close() {
	p.closing.Store(true)
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
	p.task, p.repeat, p.pieces, p.grain = t, nil, pieces, grain
	p.share(uint64(items) << 32)
}

// doRepeatable runs t over the given number of pieces, one at a time.
func (p *pool) doRepeatable(t repeatable, pieces int) {
	p.review()
	if pieces <= 1 || len(p.helpers) == 1 {
		t.run(0, 0, pieces)
		return
	}
	p.task, p.repeat, p.pieces, p.grain = t, t, pieces, 1
	p.share(uint64(pieces)<<32 | repeatBit)
}

// share does the current task together with the workers.
func (p *pool) share(claims uint64) {
	items, _, _ := split(claims)
	p.done.Store(0)
	p.claims.Store(claims)
	p.wakeUp(int(items) - 1)
	start := p.now()
	own := p.drain()
	if p.done.Load() != items {
		now := p.now()
		p.awaitItems(items, now, (now-start)/time.Duration(max(1, own)))
	}
	p.task, p.repeat = nil, nil
	if f := p.failure.Swap(nil); f != nil {
		panic(f.reason)
	}
}

// serve is the life of a worker.
func (p *pool) serve(worker int) {
	debug.SetPanicOnFault(true) // tasks read mapped model files
	h := &p.helpers[worker]
	for p.awaitTask(h) {
		h.stage.Store(claiming)
		for p.available(h) && p.help(h, worker) {
		}
		h.stage.Store(idle)
	}
}

// help does one item as a worker, and reports whether there was one.
func (p *pool) help(h *helper, worker int) bool {
	items, item, repeatable := split(p.claims.Add(1) - 1)
	switch {
	case item >= items:
		return false
	case repeatable:
		if p.repeatItem(h, worker, int(item)) {
			p.report(1, items)
		}
	default:
		p.perform(worker, int(item))
		p.report(1, items)
	}
	return true
}

// drain does items as the caller until none is left to claim, and returns how many it did.
func (p *pool) drain() (own int) {
	for {
		items, item, _ := split(p.claims.Add(1) - 1)
		if item >= items {
			if own > 0 {
				p.report(own, items)
			}
			return own
		}
		p.perform(0, int(item))
		own++
	}
}

// report adds to the items that are done, and wakes the caller after the last.
func (p *pool) report(done int, items int64) {
	if p.done.Add(int64(done)) == items && p.waiting.Swap(false) {
		p.finished <- struct{}{}
	}
}

func (p *pool) perform(worker, item int) {
	defer p.catch()
	from := item * p.grain
	p.task.run(worker, from, min(from+p.grain, p.pieces))
}

// catch keeps what an item panicked with.
func (p *pool) catch() {
	if reason := recover(); reason != nil {
		p.fail(reason)
	}
}

func (p *pool) fail(reason any) { p.failure.CompareAndSwap(nil, &failure{reason}) }

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
	if p.overtake(items); p.done.Load() == items {
		return
	}
	p.noteLate()
	for p.done.Load() != items {
		p.waiting.Store(true)
		if p.done.Load() == items && p.waiting.Swap(false) {
			break
		}
		<-p.finished
	}
	if now := p.now(); p.repeat == nil && now-since > stallTime+stallItems*one {
		p.sendLateAway(now)
	}
}

// available reports whether there is an item for a worker to claim.
func (p *pool) available(h *helper) bool {
	items, next, repeatable := split(p.claims.Load())
	return next < items && (repeatable || !h.away.Load())
}

// awaitTask returns true when there may be something to do, and false when the
// pool closes.
func (p *pool) awaitTask(h *helper) bool {
	start := p.now()
	for round := 1; ; round++ {
		if p.closing.Load() {
			return false
		}
		if p.available(h) {
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
	stay := p.available(h) || p.closing.Load()
	if !stay || !p.takeParked() {
		<-p.wake
		leaveCore(p.callersCore.Load())
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
		p.callersCore.Store(currentCore())
		p.wake <- struct{}{}
	}
}
