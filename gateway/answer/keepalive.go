package answer

import (
	"slices"
	"time"
)

// A KeepAlive keeps the connection of a client open while nothing is written.
type KeepAlive struct {
	// Every is the longest silence; 0 sends nothing.
	Every time.Duration
	// Ping sends something; nil if nothing need be sent. An error from it ends the answer.
	Ping func() error
}

// reportEvery is how often a client that asked for progress is told where it stands
// while it waits for its turn.
const reportEvery = 500 * time.Millisecond

// A pinger calls Ping, on the goroutine of a timer, when nothing was handed on for a
// while. A client that waits in the queue hears more often, and of its place if it
// asked for progress.
type pinger struct {
	KeepAlive
	answer *Answer
	take   func([]Piece) error
	// shown is set once more than progress was handed on.
	shown bool

	// mu is held while anything is written, which may take as long as a client takes
	// to read.
	mu    chanMutex
	timer *time.Timer
	// last is when something was handed on or, before that, when the wait began.
	last   time.Time
	handed bool
	ended  bool
	// err is why a write of its own failed; broken is closed then.
	err    error
	broken chan struct{}
}

func (a *Answer) keepAlive(k KeepAlive, take func([]Piece) error) *pinger {
	p := &pinger{
		KeepAlive: k,
		answer:    a,
		take:      take,
	}
	if k.Every > 0 && (k.Ping != nil || a.reports) {
		p.mu, p.last = newChanMutex(), time.Now()
		p.broken = make(chan struct{})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(p.interval(), p.tick)
	}
	return p
}

// hand hands pieces on, and not after a write failed.
func (p *pinger) hand(pieces []Piece) error {
	p.shown = p.shown || showMore(pieces)
	if p.timer == nil {
		return p.take(pieces)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.last, p.handed = time.Now(), true
	return p.take(pieces)
}

// showMore reports whether pieces show more than progress. It is not inlined: the piece that it looks at would make the
// frame of the caller larger, which stays on the stack of every open stream.
//
//go:noinline
func showMore(pieces []Piece) bool {
	return slices.ContainsFunc(pieces, func(added Piece) bool { return !added.onlyProgress() })
}

// interval is how long to wait until the silence may have been too long.
func (p *pinger) interval() time.Duration {
	every := p.Every
	if !p.handed || p.answer.waiting.Load() {
		every = min(every, p.answer.noticeEvery)
		if p.answer.reports {
			every = min(every, reportEvery)
		}
	}
	return every
}

// tick pings if nothing was written for long enough.
func (p *pinger) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.err != nil {
		return
	}
	quiet := p.Every
	if p.answer.waiting.Load() {
		quiet = p.interval()
	}
	left := quiet - time.Since(p.last)
	if left <= 0 {
		p.last, p.handed = time.Now(), true
		if p.err = p.ping(); p.err != nil {
			close(p.broken)
			p.answer.work.Cancel()
			return
		}
		left = quiet
	}
	p.timer.Reset(min(left, p.interval()))
}

func (p *pinger) ping() error {
	if p.answer.reports && p.answer.waiting.Load() {
		if where := p.answer.Waiter.Status(); where.Waiting {
			return p.take([]Piece{{Progress: where.Progress(len(p.answer.Prompts[0].Tokens))}})
		}
	}
	if p.Ping == nil {
		return nil
	}
	return p.Ping()
}

// failure is why a ping failed, nil if none did.
func (p *pinger) failure() error {
	if p.timer == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// stop returns when nothing more is written.
func (p *pinger) stop() {
	if p.timer == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.timer.Stop()
}
