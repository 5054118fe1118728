package fleet

import (
	"context"

	"parley"
)

// Workers may share a request: one computes the prompt, and another one, which only
// decodes, fetches the blocks and writes the answer. The first is a leg of its own, before
// the one that it is for. Whatever becomes of it, the second worker can answer alone.

// prefillable reports whether the prompt of a trip can be computed apart from its answer.
func (t *trip) prefillable() bool {
	r := t.r
	return !t.said.begun() && t.beside == nil && !r.Embed && !r.PromptLogprobs && r.SinkTokens == 0
}

// computePrompt has the prompt of a leg computed by the worker that was found for it, if
// there is one, so that the leg's worker finds it there.
func (t *trip) computePrompt(ctx context.Context, l *leg) {
	p, f := l.flow.blocks.prompt, t.fleet
	if p == nil {
		return
	}
	bounded, cancel := context.WithCancelCause(p.keep(ctx, f.cfg.Now()))
	defer cancel(nil)
	p.flow.context = bounded
	f.begin(p, cancel)
	v, err := failed, errCut // unless it ends otherwise, as when the worker panics
	defer func() {
		p.record.Tokens = 0 // the client sees none of them
		f.finish(p, v, err)
		f.prefilled(l, v == arrived)
	}()
	for d, fault := range p.member.Worker.Generate(bounded, promptOf(t.r)) {
		if fault != nil {
			v, err = judge(ctx, bounded, fault), fault
			return
		}
		if p.record.hear(&d, f.cfg.Now()); d.Usage != nil {
			v, err = arrived, nil
		}
	}
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

// prefilled notes whether the prompt of a leg was computed. If not, its worker computes it.
func (f *Fleet) prefilled(l *leg, done bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	outcome := "prefilled"
	if !done {
		outcome, l.flow.blocks.source = "prefill failed", nil
		f.fetchEnded(l, nil, f.cfg.Now())
	} else if m, u := l.flow.blocks.prompt.member, l.flow.blocks.prompt.record.Usage; u != nil {
		m.paced(u)
		m.totals.prompts += uint64(u.PromptTokens)
		m.totals.cached += uint64(u.CachedTokens)
	}
	f.metrics.transfers.WithLabelValues(outcome).Inc()
}

// withPrompt adds what another worker did for the prompt of a leg to the leg's usage: what
// it computed was not cached, although the leg's worker found it there.
func (l *leg) withPrompt(u *parley.Usage) {
	if l.flow.blocks.prompt == nil || l.flow.blocks.prompt.record.Usage == nil {
		return
	}
	first := l.flow.blocks.prompt.record.Usage
	u.CachedTokens, u.Miss = min(u.CachedTokens, first.CachedTokens), first.Miss
	u.Queued += first.Queued
	u.Prefill += first.Prefill
}
