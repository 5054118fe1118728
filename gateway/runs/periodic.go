package runs

import "time"

// writersMax is how many runs write what they have so far at once. The store orders its
// writes anyway: more of them would only wait there, before the beginnings and outcomes
// that clients wait for.
const writersMax = 4

// A periodicWrite writes what a run has so far at intervals, on a timer: between
// two writes it costs no goroutine. While too many others write, it waits for the next
// time.
type periodicWrite struct {
	every time.Duration
	write func() (again bool)
	// slots is shared by all runs of the process.
	slots chan struct{}
	// lock has a value while the write runs or the timer changes. It is a channel, as a
	// goroutine that waits for a mutex keeps the clock of a test from moving.
	lock    chan struct{}
	timer   *time.Timer
	stopped bool
}

// periodically starts a periodicWrite. It ends when write returns false, or by stop.
func (r *Runs) periodically(every time.Duration, write func() (again bool)) *periodicWrite {
	p := &periodicWrite{every: every, write: write, slots: r.slots, lock: make(chan struct{}, 1)}
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
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
		p.stopped = !p.write()
	default: // too many write
	}
	if !p.stopped {
		p.timer.Reset(p.every)
	}
}

// stop returns when nothing more will be written. It may be called again.
func (p *periodicWrite) stop() {
	p.lock <- struct{}{}
	p.stopped = true
	p.timer.Stop()
	<-p.lock
}
