package record

import (
	"time"

	"parley"
	"parley/gateway/ledger"
)

// Took notes that a stage has lasted since begun.
func (q *Request) Took(stage ledger.Stage, begun time.Time) {
	q.stages[stage] += q.now().Sub(begun)
}

// Wrote notes how long the first write to the client took.
func (q *Request) Wrote(took time.Duration) { q.wrote.Store(int64(took)) }

// Stages works out the stages that are only known at the end: the worker reports its
// own, and what is left of the time to the first token is the first step's. Routed is
// how long it took until the cache had no answer.
func (q *Request) Stages(routed time.Duration, u *parley.Usage) ledger.Stages {
	s := &q.stages
	s[ledger.Route] = routed
	s[ledger.Queue] = q.waiter.Status().Waited + u.Queued
	s[ledger.Prefill] = u.Prefill
	s[ledger.Write] = time.Duration(q.wrote.Load())
	left := q.answer.firstToken
	for stage := range ledger.FirstStep {
		left -= s[stage]
	}
	s[ledger.FirstStep] = max(left, 0)
	return *s
}

// observeStages counts the stages of a request that has ended and had an answer.
func (q *Request) observeStages(elapsed time.Duration) {
	if q.answer.firstToken == 0 || q.Background {
		return
	}
	q.stages[ledger.Write] = time.Duration(q.wrote.Load())
	for stage, took := range q.stages {
		q.metrics.stages[stage].Observe(took.Seconds())
	}
	first := q.Started.Add(q.answer.firstToken)
	last := first
	for _, at := range q.answer.lastTokenAt {
		if at.After(last) {
			last = at
		}
	}
	q.metrics.decode.Observe(last.Sub(first).Seconds())
	q.metrics.whole.Observe(elapsed.Seconds())
}
