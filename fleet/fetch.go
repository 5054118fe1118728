package fleet

import (
	"cmp"
	"crypto/rand"
	"slices"
	"time"

	"parley"
	"parley/route"
	"parley/worker/kvwire"
)

// source returns where the worker of a decision should fetch blocks from, nil if it is to
// compute them, and the attempt that must compute them there first, nil if that worker has
// them. The lock is held.
func (f *Fleet) source(dispatch *dispatch, q *route.Request, d *route.Decision,
	now time.Time) (*parley.BlockSource, *attempt) {
	if f.cfg.NoTransfers {
		return nil, nil
	}
	f.router.Fetch(q, d, now)
	var prompt *attempt
	if dispatch.prefillable() {
		if first, ok := f.router.Prefill(q, d, now); ok {
			prompt = f.promptAttempt(dispatch, q, first, d, now)
		}
	}
	t := d.Fetch
	if t == nil {
		return nil, nil
	}
	m := f.at(t.From)
	source := m.Blocks(m.health.condition.Instance, now.Add(kvwire.TicketLife))
	source.Worker, source.Tokens, source.Within = m.Name, t.Tokens, t.Within
	if prompt != nil {
		source.Request = cmp.Or(dispatch.r.ID, rand.Text())
	}
	f.router.Fetching(d)
	f.metrics.transfers.WithLabelValues("decided").Inc()
	return &source, prompt
}

// promptAttempt notes that a worker gets the prompt of a request, for the worker of d. The lock is held.
func (f *Fleet) promptAttempt(t *dispatch, q *route.Request, first route.Decision, d *route.Decision,
	now time.Time) *attempt {
	only := *q
	only.OutputTokens, only.Prefill = 1, true
	prompt := f.newAttempt(t, &only, first, now)
	prompt.routing.Reason += ", computes the prompt for " + d.Name
	prompt.record.asked = now
	return prompt
}

// fetched notes what came of an attempt's transfer.
func (f *Fleet) fetched(l *attempt, t *parley.Transfer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetchEnded(l, t, f.cfg.Now())
}

// fetchEnded notes that an attempt's transfer has ended, if there was one: t says how, nil if
// that was not told. The lock is held.
func (f *Fleet) fetchEnded(l *attempt, t *parley.Transfer, now time.Time) {
	if !l.flow.blocks.fetching {
		return
	}
	l.flow.blocks.fetching = false
	if t == nil {
		f.router.Fetched(&l.decision, 0, 0, false, now)
		f.metrics.transfers.WithLabelValues("unknown").Inc()
		return
	}
	if l.flow.blocks.prompt != nil { // it waited for the prompt, so nothing is known of the way
		t = new(*t)
		t.Took = 0
	}
	broken := slices.Contains([]string{"unreachable", "refused", "incompatible", "damaged", "cut off"}, t.Miss) ||
		t.Miss == "too slow" && t.Bytes == 0 && l.flow.blocks.prompt == nil
	f.router.Fetched(&l.decision, t.Bytes, t.Took, broken, now)
	outcome := t.Miss
	if outcome == "" {
		outcome = "whole"
	}
	f.metrics.transfers.WithLabelValues(outcome).Inc()
	f.metrics.transferTokens.Add(float64(t.CameTokens))
	if broken {
		f.cfg.Log.Warn("block transfer failed", "worker", l.member.Name, "from", t.From, "reason", t.Miss)
	}
}
