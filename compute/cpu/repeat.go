package cpu

import "time"

// A repeatable task is one whose items two threads may do at once, so that the
// caller never waits for a worker that the system has taken off its core: it
// does the item again. The worker must then neither change what others see
// nor depend on it, because the task may be over and its memory in use for
// the next one when it continues.
type repeatable interface {
	task
	// take copies what an item needs, other than the numbers that are
	// computed with, to the worker's own memory.
	take(worker, item int)
	// compute does the item with what was taken, in the worker's own memory.
	// If the item is overtaken, inputs change meanwhile and the results are nonsense.
	compute(worker int)
	// deliver copies the results to where they belong.
	deliver(worker int)
}

// The stages of a worker. When it has copied what an item needs it is in stage
// working, with the item in the bits above, and can be overtaken. It delivers
// its results only if it was not.
const (
	idle       = iota
	claiming   // or doing an item that cannot be overtaken
	working    // in its own memory alone
	delivering // results
	overtaken  // the caller does its item

	stageBits = 3
)

// workingOn is the stage of a worker that can be overtaken.
func workingOn(item int) uint64 { return uint64(item)<<stageBits | working }

// repeatItem does an item as a worker that can be overtaken, and reports
// whether it was not.
func (p *pool) repeatItem(h *helper, worker, item int) bool {
	t := p.repeat
	t.take(worker, item)
	h.stage.Store(workingOn(item))
	reason := computed(t, worker)
	if !h.stage.CompareAndSwap(workingOn(item), delivering) {
		h.stage.Store(claiming)
		leaveCore(p.callersCore.Load())
		return false
	}
	if reason == nil {
		t.deliver(worker)
	} else {
		p.fail(reason)
	}
	h.stage.Store(claiming)
	return true
}

// computed returns what an item panicked with.
func computed(t repeatable, worker int) (reason any) {
	defer func() { reason = recover() }()
	t.compute(worker)
	return nil
}

// overtake does what workers hold of a repeatable task.
func (p *pool) overtake(items int64) {
	if p.repeat == nil {
		return
	}
	p.callersCore.Store(currentCore())
	for i := 1; i < len(p.helpers); i++ {
		h := &p.helpers[i]
		stage := h.stage.Load()
		if stage&(1<<stageBits-1) == working && h.stage.CompareAndSwap(stage, overtaken) {
			p.perform(0, int(stage>>stageBits))
			p.report(1, items)
		}
	}
}

// settle waits until no worker computes with memory of a task that is over.
// Callers that free such memory must call it first.
func (p *pool) settle() {
	for i := 1; i < len(p.helpers); i++ {
		for p.helpers[i].stage.Load() == overtaken {
			time.Sleep(callerSpin)
		}
	}
}
