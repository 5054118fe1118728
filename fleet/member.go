package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"parley"
	"parley/queue"
	"parley/route"
	"parley/route/kvindex"
)

// A Member is a worker as it joins a fleet: who computes, and what is known of
// it. Only Name, Pool and Worker are needed.
type Member struct {
	// Name is for people and must be unique; Pool is where it stands; Kind is what
	// it is, such as parley or vllm.
	Name, Pool, Kind string
	// Worker computes. Its models are asked for when it joins; its probes may tell of
	// others later.
	Worker parley.Worker
	// BlockTokens is the size of its blocks, 0 if unknown, CapacityTokens how much
	// context its memory holds, and Source what it reports about its blocks.
	BlockTokens, CapacityTokens int
	Source                      kvindex.Source
	// SourceOf is the same for one of several models; nil if events do not tell
	// whose blocks they are about.
	SourceOf func(model string) kvindex.Source
	// TextOnly workers do not return token ids, so that an answer which they have
	// begun cannot be moved. Resume says how they resume one begun elsewhere.
	TextOnly bool
	Resume   Resuming
	// Withdraws: it begins requests of a higher class first, and gives one back that it
	// has not begun when it is asked to; see [parley.Withdrawal].
	Withdraws bool
	// Probe asks how it is. Without it, only requests show.
	Probe func(ctx context.Context) (Condition, error)
	// Follow passes its events on until ctx ends or they are lost. It is called
	// again then.
	Follow func(ctx context.Context, to *Feed) error
	// Sleep has it give its memory back, Wake take it again; nil if it cannot. Both
	// return when that is done.
	Sleep, Wake func(ctx context.Context) error
	// Close is called after it has left and its last answer has ended.
	Close func() error
}

// A Condition is what a worker says of itself.
type Condition struct {
	// Draining workers finish what they have and want nothing new.
	Draining bool
	// Sleeping workers have given their memory back.
	Sleeping bool
	// Instance names the process: another name is a new one, which holds nothing.
	Instance string
	// Models are those it has now; none if it does not say.
	Models []parley.Model
	// What a [route.Status] and a [Member] say; 0 if it is not known.
	UsedTokens, WaitingTokens, Running, CapacityTokens int
	// Seats is how many requests it computes at once, 0 if it does not say; Waiting
	// counts those that wait in it.
	Seats, Waiting int
	// What only people want to know: its program's version, how long it has computed,
	// how often a request lost its memory.
	Version     string
	BusySeconds float64
	Preemptions uint64
}

// A State is what is to be expected of a worker.
type State string

// The states of a worker.
const (
	// Joining: it has not answered a probe yet.
	Joining State = "joining"
	// Up: it gets work.
	Up State = "up"
	// Draining: it finishes what it has.
	Draining State = "draining"
	// Down: it does not answer. It is asked on.
	Down State = "down"
	// Failing: it answers with errors, and its breaker is open.
	Failing State = "failing"
	// Asleep: it has released its memory, and is woken when no other worker can answer.
	Asleep State = "asleep"
	// Waking: it is taking its memory again.
	Waking State = "waking"
)

// A member is a worker in the fleet. The fleet's lock guards what changes.
type member struct {
	Member
	seats []seat
	state State // but for Failing, which the breaker says, and Waking
	// drained by the operator; tired if it is to sleep when it has nothing to do;
	// waking while it is told to; leaving when it has been taken out.
	drained, tired, waking, leaving bool
	// turns counts what we had it do and how often it was found gone, so that older
	// answers of probes are known; drains counts those by the operator;
	// wakeAfter is when it may be woken again after that failed.
	turns     int
	drains    int
	wakeAfter time.Time
	trouble   error // why it is not up, if something said so
	condition Condition
	reported  time.Time // when the probe began that found it so
	rate      float64   // prompt tokens that it computes in a second; 0 if not known
	since     time.Time // it is up
	breaker   *queue.Breaker
	misses    int // probes without an answer, in a row
	crowd     int // answers it had when it was lost
	legs      map[*leg]struct{}
	kick      chan struct{} // asks for a probe now
	stop      context.CancelFunc

	sent, failed, lost, moved uint64
	cached, prompts           uint64 // tokens
}

// present returns the member's state with its breaker's.
func (m *member) present(now time.Time) State {
	switch {
	case m.state == Asleep && m.waking:
		return Waking
	case m.state == Up && (m.drained || m.tired || m.leaving || m.condition.Draining):
		return Draining
	case m.state == Up && m.breaker.State(now) == queue.Open:
		return Failing
	}
	return m.state
}

// status is what the router is told.
func (m *member) status(now time.Time, slowStart time.Duration) route.Status {
	s := route.Status{
		Ready:      m.present(now) == Up && m.breaker.Ready(now),
		UsedTokens: m.condition.UsedTokens, WaitingTokens: m.condition.WaitingTokens, Running: m.condition.Running,
	}
	if up := now.Sub(m.since); slowStart > 0 && up < slowStart {
		s.Share = max(shareMin, float64(up)/float64(slowStart))
	}
	return s
}

// shareMin is the share of a worker that just came.
const shareMin = 0.1

// A Feed is where a worker's events go, until it has left. It is safe for
// concurrent use.
type Feed struct {
	fleet  *Fleet
	member *member
}

// An indexSeat is where one model's events go. All places of a worker are told of all
// its batches, so that they agree in what is missing.
type indexSeat struct {
	index  *kvindex.Index
	worker kvindex.Worker
}

// each calls tell for the places of all present seats, and returns what the first one
// asks for.
func (f *Feed) each(tell func(p indexSeat) kvindex.Ask) (ask kvindex.Ask) {
	f.fleet.mu.Lock()
	defer f.fleet.mu.Unlock()
	if !f.member.Source.Events && f.member.SourceOf == nil { // whose blocks they are about is no longer known
		return ask
	}
	for i, s := range f.member.seats {
		index, number := f.fleet.router.Index(s.id)
		if a := tell(indexSeat{index, number}); i == 0 {
			ask = a
		}
	}
	return ask
}

// Apply takes a batch and returns what the worker must be asked for.
func (f *Feed) Apply(b kvindex.Batch) kvindex.Ask {
	return f.each(func(p indexSeat) kvindex.Ask { return p.index.Apply(p.worker, b) })
}

// ReplayEnded notes that all that could be repeated was.
func (f *Feed) ReplayEnded() kvindex.Ask {
	return f.each(func(p indexSeat) kvindex.Ask { return p.index.ReplayEnded(p.worker) })
}

// Restore replaces what is known by a snapshot. Its blocks are gone through once
// for each model.
func (f *Feed) Restore(seq uint64, blocks iter.Seq[kvindex.Event]) kvindex.Ask {
	return f.each(func(p indexSeat) kvindex.Ask { return p.index.Restore(p.worker, seq, blocks) })
}

// Reconnected notes that batches may have been missed.
func (f *Feed) Reconnected() {
	f.each(func(p indexSeat) kvindex.Ask { p.index.Reconnected(p.worker); return kvindex.Ask{} })
}

// Wants returns what the worker was asked for and has not given.
func (f *Feed) Wants() kvindex.Ask {
	return f.each(func(p indexSeat) kvindex.Ask { return p.index.Wants(p.worker) })
}

// follow keeps listening to a member's events.
func (f *Fleet) follow(ctx context.Context, m *member) {
	if m.BlockTokens == 0 { // the router does not use them
		return
	}
	feed := &Feed{fleet: f, member: m}
	for wait := followMin; ctx.Err() == nil; {
		began := f.cfg.Now()
		err := guarded(func() error { return m.Follow(ctx, feed) })
		if f.cfg.Now().Sub(began) > followMax {
			wait = followMin
		}
		if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			f.cfg.Log.Warn("worker events lost; reconnecting", "worker", m.Name, "error", err, "in", wait)
		}
		sleep(ctx, wait)
		wait = min(2*wait, followMax)
	}
}

// guarded turns a panic into an error: one bad worker must not end the process.
func guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run()
}

// followMin and followMax bound the wait before events are asked for again.
const followMin, followMax = 100 * time.Millisecond, 5 * time.Second

// sleep waits, and reports false if ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
