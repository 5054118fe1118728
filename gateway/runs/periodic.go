package runs

import (
	"sync/atomic"
	"time"
)

// spreadOver is the least time between two writes for each run that there is: however many there are, the
// store is not busy with them alone.
const spreadOver = time.Millisecond

// writeSlots are what periodic writes of a process share.
type writeSlots struct {
	// free has room for those that write at once: more of them would only wait in the store, before the
	// beginnings and outcomes that clients wait for.
	free chan struct{}
	// open is how many periodic writes there are.
	open atomic.Int64
}

func newWriteSlots(most int) *writeSlots { return &writeSlots{free: make(chan struct{}, most)} }

// A periodicWrite writes what a run has so far at intervals, on a timer: between
// two writes it costs no goroutine. While too many others write, it waits for the next
// time.
type periodicWrite struct {
	every time.Duration
	write func() (again bool)
	slots *writeSlots
	// lock has a value while the write runs or the timer changes. It is a channel, as a
	// goroutine that waits for a mutex keeps the clock of a test from moving.
	lock    chan struct{}
	timer   *time.Timer
	stopped bool
}

// periodically starts a periodicWrite. It ends when write returns false, or by stop.
func (r *Runs) periodically(every time.Duration, write func() (again bool)) *periodicWrite {
	p := &periodicWrite{every: every, write: write, slots: r.slots, lock: make(chan struct{}, 1)}
	p.slots.open.Add(1)
	p.lock <- struct{}{}
	p.timer = time.AfterFunc(every, p.fire)
	<-p.lock
	return p
}

func (p *periodicWrite) fire() {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	if p.stopped {
		return
	}
	select {
	case p.slots.free <- struct{}{}:
		again := p.write()
		<-p.slots.free
		if !again {
			p.end()
			return
		}
	default: // too many write
	}
	p.timer.Reset(max(p.every, time.Duration(p.slots.open.Load())*spreadOver))
}

// stop returns when nothing more will be written. It may be called again.
func (p *periodicWrite) stop() {
	p.lock <- struct{}{}
	defer func() { <-p.lock }()
	p.end()
}

// end has nothing more written. The lock is held.
func (p *periodicWrite) end() {
	if !p.stopped {
		p.slots.open.Add(-1)
	}
	p.stopped = true
	p.timer.Stop()
}
