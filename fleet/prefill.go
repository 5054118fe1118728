package fleet

import (
	"context"
	"iter"
	"time"

	"parley"
)

// Workers may share a request: one computes the prompt, and another one, which only
// decodes, fetches the blocks as they are computed and writes the answer. The first is a
// attempt of its own, beside the one that it is for. Whatever becomes of it, the second worker
// can answer alone.

// prefillable reports whether the prompt of a dispatch can be computed apart from its answer.
func (t *dispatch) prefillable() bool {
	r := t.r
	return !t.said.begun() && t.beside == nil && !r.Embed && !r.PromptLogprobs && r.SinkTokens == 0
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
	if p == nil {
		return func(stream deltas) deltas { return stream }
	}
	bounded, cancel := context.WithCancelCause(p.keep(ctx, now))
	p.flow.context = bounded
	t.fleet.begin(p, cancel)
	return func(stream deltas) deltas { return t.withPrompt(ctx, l, p, cancel, stream) }
}

// withPrompt has the prompt of an attempt computed while the attempt's stream is read. Both end
// together.
func (t *dispatch) withPrompt(ctx context.Context, l, p *attempt, cancel context.CancelCauseFunc,
	stream deltas) deltas {
	return func(yield func(parley.Delta, error) bool) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			t.computePrompt(ctx, l, p)
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

// computePrompt has the prompt of an attempt computed by the worker of another attempt.
func (t *dispatch) computePrompt(ctx context.Context, l, p *attempt) {
	f := t.fleet
	v, err := failed, errCut // unless it ends otherwise
	r := promptOf(t.r)
	r.ID = l.flow.blocks.source.Request
	panicked := guarded(func() error {
		for d, fault := range p.member.Worker.Generate(p.flow.context, r) {
			if fault != nil {
				v, err = judge(ctx, p.flow.context, fault), fault
				return nil
			}
			if p.record.hear(&d, f.cfg.Now()); d.Usage != nil {
				v, err = arrived, nil
			}
		}
		return nil
	})
	if panicked != nil {
		v, err = failed, panicked
	}
	p.record.Tokens = 0 // the client sees none of them
	f.finish(p, v, err, false)
	f.prefilled(p, v == arrived)
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
		p.member.paced(u)
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
