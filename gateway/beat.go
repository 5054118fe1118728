package gateway

import (
	"time"

	"parley"
)

// A beat keeps a stream alive whose events are written by another goroutine: it
// writes when nothing else was written for a while, and tells a client that waits
// where it stands. Whoever writes events holds its lock.
type beat struct {
	held   hold
	stream *stream
	answer *answer
	form   shape
	timer  *time.Timer
	begun  time.Time
	// err is what went wrong with a write of its own.
	err   error
	ended bool
}

// Lock keeps others from writing.
func (b *beat) Lock() { b.held.Lock() }

// Unlock lets them write again.
func (b *beat) Unlock() { b.held.Unlock() }

// follow sends what is added to a as it comes, on the caller's goroutine: from
// the worker's connection to the client's there is no other.
func (s *stream) follow(a *answer, form shape) error {
	b := &beat{held: newHold(), stream: s, answer: a, form: form, begun: time.Now()}
	b.begin()
	defer b.end()
	held := &pickup{beat: b}
	if s.call.apart != nil && a.plain() {
		held.to = s.call.apart.write
		a.work.ctx = parley.WithUptake(a.work.ctx, held)
	}
	err := a.eachHere(s.call.request.Context(), held, func(pieces []piece) error {
		if b.err != nil {
			return b.err
		}
		return s.sendPieces(pieces, form)
	})
	b.Lock()
	defer b.Unlock()
	if b.err != nil {
		return b.err
	}
	return err
}

func (b *beat) begin() {
	b.Lock()
	defer b.Unlock()
	if b.stream.call.gateway.config.KeepAlive > 0 {
		b.timer = time.AfterFunc(b.interval(), b.strike)
	}
}

// interval is how long nothing may be written.
func (b *beat) interval() time.Duration {
	every := b.stream.call.gateway.config.KeepAlive
	if b.stream.wrote.IsZero() || b.answer.waiting.Load() {
		every = min(every, b.answer.noticeEvery)
		if b.answer.reports {
			every = min(every, reportEvery)
		}
	}
	return every
}

// strike writes if nothing was written for long enough, and is called again when
// it may be time.
func (b *beat) strike() {
	b.Lock()
	defer b.Unlock()
	if b.ended || b.err != nil {
		return
	}
	waits, quiet := b.answer.waiting.Load(), b.stream.call.gateway.config.KeepAlive
	if waits {
		quiet = b.interval()
	}
	left := quiet - time.Since(b.last())
	if left <= 0 {
		if b.err = b.write(waits); b.err != nil {
			b.answer.work.cancel()
			return
		}
		left = quiet
	}
	b.timer.Reset(min(left, b.interval()))
}

// last is when anything was written, or else when the stream was begun.
func (b *beat) last() time.Time {
	if b.stream.wrote.IsZero() {
		return b.begun
	}
	return b.stream.wrote
}

func (b *beat) write(waits bool) error {
	where := b.answer.place.stands()
	if waits && b.answer.reports && where.waiting {
		return b.stream.sendPieces([]piece{{progress: where.progress(len(b.answer.prompts[0].tokens))}}, b.form)
	}
	return b.stream.ping()
}

// end stops the beat: it writes nothing after that.
func (b *beat) end() {
	b.Lock()
	defer b.Unlock()
	b.ended = true
	if b.timer != nil {
		b.timer.Stop()
	}
}

// A pickup is the lock of who takes an answer's deltas. Where each is one event,
// and the client's connection takes that at once, any goroutine may be who takes
// them: it is a [parley.Uptake].
type pickup struct {
	*beat
	to *wireResponse
	// given is set while whoever takes has the lock by Try.
	given bool
}

// Try takes the lock if the next event holds up nobody. Those before the first
// take longer to make.
func (p *pickup) Try() bool {
	if p.to == nil || p.stream.call.stream == nil {
		return false
	}
	if !p.held.TryLock() {
		return false
	}
	if p.given = p.err == nil && p.to.swift(); !p.given {
		p.beat.Unlock()
	}
	return p.given
}

// Done gives the lock back that Try took.
func (p *pickup) Done() {
	p.given = false
	p.beat.Unlock()
}

// Lock keeps others from writing, unless Try has done so.
func (p *pickup) Lock() {
	if !p.given {
		p.beat.Lock()
	}
}

// Unlock lets them write again, unless Done will.
func (p *pickup) Unlock() {
	if !p.given {
		p.beat.Unlock()
	}
}
