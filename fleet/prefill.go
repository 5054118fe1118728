package fleet

import (
	"context"
	"iter"
	"time"

	"parley"
	"parley/route"
)

// Workers may share a request: one computes the prompt, and another one, which only
// decodes, fetches the blocks as they are computed and writes the answer. The first is a
// attempt of its own, beside the one that it is for. Whatever becomes of it, the second worker
// can answer alone.

// prefillable reports whether the prompt of a dispatch can be computed apart from its answer.
func (t *dispatch) prefillable() bool {
	r := t.r
	return !t.partial.begun() && t.beside == nil && !r.Embed && !r.PromptLogprobs && r.SinkTokens == 0
}

// promptEnd is how long the end of an answer waits for the worker that has computed its
// prompt to say what that took.
const promptEnd = 5 * time.Second

// deltas are what a worker says.
type deltas = iter.Seq2[parley.Delta, error]

// promptBeside returns what has the prompt of an attempt computed beside the attempt's stream, by the
// worker that was found for that, if there is one.
func (t *dispatch) promptBeside(ctx context.Context, l *attempt, now time.Time) func(stream deltas) deltas {
	p := l.flow.blocks.prompt
	if p == nil || p.member.Divides != "" {
		return func(stream deltas) deltas { return stream }
	}
	cancel := t.beginPrompt(ctx, p, now)
	return func(stream deltas) deltas { return t.withPrompt(ctx, l, p, cancel, stream) }
}

// beginPrompt lets an attempt begin that computes a prompt.
func (t *dispatch) beginPrompt(ctx context.Context, p *attempt, now time.Time) context.CancelCauseFunc {
	bounded, cancel := context.WithCancelCause(p.keep(ctx, now))
	p.flow.context = bounded
	t.fleet.begin(p, cancel)
	return cancel
}

// withPrompt has the prompt of an attempt computed while the attempt's stream is read. Both end
// together.
func (t *dispatch) withPrompt(ctx context.Context, l, p *attempt, cancel context.CancelCauseFunc,
	stream deltas) deltas {
	return func(yield func(parley.Delta, error) bool) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := promptOf(t.r)
			r.ID = l.flow.blocks.source.Request
			t.computePrompt(ctx, p, r)
		}()
		defer func() {
			cancel(errWithdrawn) // the answer has begun, or has ended
			<-done
		}()
		for d, err := range stream {
			switch {
			case d.Transfer != nil && d.Transfer.Miss != "": // the rest is computed twice otherwise
				cancel(errWithdrawn)
			case d.Usage != nil:
				select {
				case <-done:
				case <-time.After(promptEnd):
				case <-ctx.Done():
				}
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// computePrompt has the prompt of r computed by the worker of an attempt, and says how that ended.
func (t *dispatch) computePrompt(ctx context.Context, p *attempt, r *parley.Request) (v attemptVerdict, err error) {
	f := t.fleet
	v, err = failed, errCut // unless it ends otherwise
	panicked := guarded(func() error {
		for d, fault := range p.member.Worker.Generate(p.flow.context, r) {
			if fault != nil {
				v, err = judge(ctx, p.flow.context, fault), fault
				return nil
			}
			if p.record.observe(&d, f.cfg.Now()); d.Usage != nil {
				v, err = answered, nil
			}
		}
		return nil
	})
	if panicked != nil {
		v, err = failed, panicked
	}
	p.record.Tokens = 0 // the client sees none of them
	f.finish(p, v, err, false)
	f.prefilled(p, v == answered)
	return v, err
}

// promptOf returns a request that has the prompt of r computed and nothing else.
func promptOf(r *parley.Request) *parley.Request {
	return &parley.Request{
		ID:           r.ID,
		Model:        r.Model,
		Prompt:       r.Prompt,
		MaxTokens:    1,
		Stop:         parley.Stop{IgnoreEnd: true},
		Class:        r.Class,
		Tenant:       r.Tenant,
		Purpose:      r.Purpose,
		Objective:    r.Objective,
		Waited:       r.Waited,
		Background:   r.Background,
		Deadline:     r.Deadline,
		Salt:         r.Salt,
		PublicTokens: r.PublicTokens,
		Retain:       r.Retain,
	}
}

// prefilled notes whether an attempt has computed a prompt. If not, the other worker does.
func (f *Fleet) prefilled(p *attempt, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	outcome := "prefilled"
	if !done {
		outcome = "prefill failed"
	} else if u := p.record.Usage; u != nil {
		f.paced(p, u)
		p.member.totals.prompts += uint64(u.PromptTokens)
		p.member.totals.cached += uint64(u.CachedTokens)
	}
	f.metrics.transfers.WithLabelValues(outcome).Inc()
}

// addPrompt adds what another worker did for the prompt of an attempt to the attempt's usage: what
// it computed was not cached, although the attempt's worker found it there.
func (l *attempt) addPrompt(u *parley.Usage) {
	p := l.flow.blocks.prompt
	if p == nil {
		return
	}
	if first := p.record.Usage; first != nil {
		u.CachedTokens, u.Miss = min(u.CachedTokens, first.CachedTokens), first.Miss
		u.Queued += first.Queued
		u.Prefill += first.Prefill
	} else if came := l.record.Transfer; came != nil {
		u.CachedTokens = max(0, u.CachedTokens-came.CameTokens)
	}
}

// Foreign engines share a request by their own means. Those that are asked one after the
// other can also answer alone: whatever becomes of the worker for prompts, the one that
// decodes computes what is missing. Those that meet, each asked at once with the same
// fields, cannot: when the prompt fails, both are asked again, with another worker for
// prompts where there is one.

// pair finds a worker that computes the prompt of a request for the one that was decided on,
// if they are foreign engines; nil if there is none. The lock is held.
func (f *Fleet) pair(t *dispatch, q *route.Request, d *route.Decision, now time.Time) *attempt {
	if !f.router.Divided(d) && (f.cfg.NoTransfers || !t.prefillable()) {
		return nil
	}
	first, ok := f.router.Pair(q, d, now)
	if !ok {
		return nil
	}
	return f.promptAttempt(t, q, first, d, now)
}

// divided returns the answer that two foreign engines give together: p computes the prompt,
// and l decodes.
func (t *dispatch) divided(ctx context.Context, l, p *attempt, r *parley.Request, now time.Time) deltas {
	cancel := t.beginPrompt(ctx, p, now)
	return func(yield func(parley.Delta, error) bool) {
		stop := context.AfterFunc(l.flow.context, func() { cancel(context.Cause(l.flow.context)) })
		defer func() {
			stop()
			cancel(errWithdrawn) // the answer has ended
		}()
		if p.member.Meet != nil {
			t.meet(ctx, l, p, cancel, r)(yield)
			return
		}
		t.promptFirst(ctx, l, p, r)(yield)
	}
}

// promptFirst has p compute the prompt and then l decode, which computes the prompt itself if p
// has failed.
func (t *dispatch) promptFirst(ctx context.Context, l, p *attempt, r *parley.Request) deltas {
	return func(yield func(parley.Delta, error) bool) {
		prompt := promptOf(r)
		prompt.Handoff = &parley.Handoff{Prefill: true}
		v, err := t.computePrompt(ctx, p, prompt)
		if cause := context.Cause(l.flow.context); cause != nil {
			yield(parley.Delta{}, cause)
			return
		}
		if v == answered {
			r = new(*r)
			r.Handoff = &parley.Handoff{Fields: prompt.Handoff.Fields}
		} else {
			t.fleet.unpaired(l, p, v, err)
		}
		l.member.Worker.Generate(l.flow.context, r)(yield)
	}
}

// unpaired notes that a worker does not get a prompt that another one was to compute.
func (f *Fleet) unpaired(l, p *attempt, v attemptVerdict, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v == failed {
		f.router.Unpaired(&p.decision, &l.decision, f.cfg.Now())
	}
	f.cfg.Log.Warn("prompt not computed apart", "worker", p.member.Name, "for", l.member.Name, "error", err)
}

// meet has p compute the prompt and l decode, both at once. Either fails with the other.
func (t *dispatch) meet(ctx context.Context, l, p *attempt, cancel context.CancelCauseFunc,
	r *parley.Request) deltas {
	return func(yield func(parley.Delta, error) bool) {
		fields := p.member.Meet()
		decode, give := context.WithCancelCause(l.flow.context)
		defer give(nil)
		prompt := new(*r)
		prompt.Handoff = &parley.Handoff{Prefill: true, Fields: fields}
		r = new(*r)
		r.Handoff = &parley.Handoff{Fields: fields}
		done := make(chan error, 1)
		go func() {
			defer close(done)
			if v, err := t.computePrompt(ctx, p, prompt); v == final {
				done <- err
				give(err)
			} else if v != answered {
				err = &promptError{p.member.Name, p.decision.Worker, err}
				done <- err
				give(err)
			}
		}()
		ended := func(wait bool) (fault error) {
			if wait {
				select {
				case fault = <-done:
					return fault
				case <-time.After(promptEnd):
				case <-ctx.Done():
				}
			}
			cancel(errWithdrawn)
			return <-done
		}
		failed := false
		for d, err := range l.member.Worker.Generate(decode, r) {
			if d.Usage != nil {
				ended(true)
			}
			if failed = err != nil; failed {
				if fault := context.Cause(decode); fault != nil && l.flow.context.Err() == nil {
					err = fault // the prompt failed first
				}
			}
			if !yield(d, err) || failed {
				break
			}
		}
		ended(false)
	}
}
