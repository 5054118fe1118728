package infer

import (
	"context"
	"sync"

	"parley"
)

// A flight is an answer that is being computed for all its members. It keeps
// everything that came, so that each member reads from the beginning at its own
// pace; it waits only when the fastest member is far behind, as one client alone
// would make it wait.
type flight struct {
	class  parley.Class
	prompt int // tokens
	cancel context.CancelCauseFunc
	// moved wakes the flight when its fastest member has read on.
	moved chan struct{}
	// ended is closed when nothing of it runs any more.
	ended chan struct{}

	mu      sync.Mutex
	members int
	ticket  *ticket
	deltas  []parley.Delta
	// relayed deltas come from another gateway.
	relayed bool
	// reached is how many deltas the fastest member has taken.
	reached int
	over    bool
	err     error
	// changed is closed when something came; nil if no member waits for that.
	changed chan struct{}
}

// takeMax is how many deltas a member takes at a time.
const takeMax = 64

// enter counts a member, unless the flight has ended badly, or still waits in
// the queue where the member, being of a higher class, would be dispatched earlier alone.
func (f *flight) enter(class parley.Class) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members == 0 || f.over || class > f.class && len(f.deltas) == 0 {
		return false
	}
	f.members++
	return true
}

// exit ends a membership and reports whether it was the last.
func (f *flight) exit() (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members--
	return f.members == 0
}

// fly computes the answer.
func (f *flight) fly(ctx context.Context, r *parley.Request, next source) {
	err := errNoUsage
	defer func() {
		if p := recover(); p != nil {
			err = parley.PanicError(p)
		}
		f.end(err)
	}()
	for s, failed := range next(ctx, r) {
		if failed != nil {
			err = failed
			return
		}
		if s.Delta.Usage != nil {
			err = nil
		}
		if !f.add(ctx, s) {
			return
		}
	}
}

// add lets the members have a step, and waits while all are far behind. It
// reports false if no member is left.
func (f *flight) add(ctx context.Context, s *Step) bool {
	f.mu.Lock()
	if s.ticket != nil {
		f.ticket = s.ticket
	} else {
		f.deltas, f.relayed = append(f.deltas, s.Delta), s.Shared
	}
	f.wake()
	behind := len(f.deltas) - f.reached
	f.mu.Unlock()
	for behind > eventsPending {
		select {
		case <-f.moved:
		case <-ctx.Done():
			return false
		}
		f.mu.Lock()
		behind = len(f.deltas) - f.reached
		f.mu.Unlock()
	}
	return true
}

// wake wakes the waiting members. The lock is held.
func (f *flight) wake() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *flight) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over, f.err = true, err
	f.wake()
}

// whole returns all deltas if the answer is complete.
func (f *flight) whole() ([]parley.Delta, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deltas, f.over && f.err == nil
}

// follow yields the answer from its beginning.
func (f *flight) follow(ctx context.Context, shared bool, yield func(*Step, error) bool) {
	at, told, next, begun := 0, (*ticket)(nil), Step{}, false
	for {
		s := f.since(at)
		if s.ticket != nil && s.ticket != told {
			told = s.ticket
			if !yield(&Step{ticket: told}, nil) {
				return
			}
		}
		for _, d := range s.deltas {
			next = Step{Delta: d, Shared: shared || s.relayed}
			if next.Shared {
				next.Delta = notComputed(d)
				if !begun && d.Count() > 0 {
					begun, next.Delta.CachedTokens = true, f.prompt
				}
			}
			if !yield(&next, nil) {
				return
			}
		}
		at += len(s.deltas)
		switch {
		case len(s.deltas) > 0:
		case s.over && s.err != nil:
			yield(&Step{}, s.err)
			return
		case s.over:
			return
		default:
			select {
			case <-s.changed:
			case <-ctx.Done():
				yield(&Step{}, context.Cause(ctx))
				return
			}
		}
	}
}

// update is what there is of a flight after some delta.
type update struct {
	ticket  *ticket
	deltas  []parley.Delta
	relayed bool
	over    bool
	err     error
	changed <-chan struct{}
}

// since returns what came after the first deltas, and notes that a member has
// taken it.
func (f *flight) since(at int) update {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := update{deltas: f.deltas[at:min(len(f.deltas), at+takeMax)], relayed: f.relayed}
	if at == 0 && len(n.deltas) == 0 {
		n.ticket = f.ticket
	}
	if to := at + len(n.deltas); to > f.reached {
		f.reached = to
		select {
		case f.moved <- struct{}{}:
		default:
		}
	}
	if len(n.deltas) > 0 {
		return n
	}
	if n.over, n.err = f.over, f.err; !n.over {
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		n.changed = f.changed
	}
	return n
}

// notComputed says in a delta's usage that nothing was computed for it.
func notComputed(d parley.Delta) parley.Delta {
	d.CachedTokens = 0
	if d.Usage != nil {
		d.Usage = &parley.Usage{
			PromptTokens:  d.Usage.PromptTokens,
			CachedTokens:  d.Usage.PromptTokens,
			Miss:          "none",
			Unenforced:    d.Usage.Unenforced,
			OutputTokens:  d.Usage.OutputTokens,
			DroppedTokens: d.Usage.DroppedTokens,
		}
	}
	return d
}
