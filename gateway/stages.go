package gateway

import (
	"time"

	"parley"
	"parley/gateway/ledger"

	"github.com/prometheus/client_golang/prometheus"
)

// took notes that a stage went on since begun.
func (c *call) took(stage ledger.Stage, begun time.Time) {
	c.spent[stage] += c.gateway.config.Now().Sub(begun)
}

// learnStages works out the stages that are only known at the end: the worker
// tells its own, and what is left of the time to the first token is the first
// step's.
func (c *call) learnStages(b *bill, u *parley.Usage) {
	s := &c.spent
	s[ledger.Route] = time.Duration(b.found.Load())
	s[ledger.Queue] = c.place.Status().Waited + u.Queued
	s[ledger.Prefill] = u.Prefill
	left := c.story.firstToken
	for stage := range ledger.FirstStep {
		left -= s[stage]
	}
	s[ledger.FirstStep] = max(left, 0)
}

// addStages makes the metrics of stages and limits.
func (m *metrics) addStages(options prometheus.HistogramOpts) {
	m.stageSeconds = prometheus.NewHistogramVec(options, []string{"stage"})
	for stage := range ledger.StageCount {
		m.stages[stage] = m.stageSeconds.WithLabelValues(stage.String())
	}
	m.limited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_limited_requests_total", Help: "Requests that a limit of their caller refused, by limit."},
		[]string{"limit"})
}

// observeStages counts the stages of a call that has ended and had an answer.
func (c *call) observeStages(elapsed time.Duration) {
	if c.bill == nil || c.story.firstToken == 0 || c.background {
		return
	}
	for stage, took := range c.spent {
		c.gateway.metrics.stages[stage].Observe(took.Seconds())
	}
	first := c.started.Add(c.story.firstToken)
	last := first
	for _, at := range c.story.lastTokenAt {
		if at.After(last) {
			last = at
		}
	}
	c.gateway.metrics.decode.Observe(last.Sub(first).Seconds())
	c.gateway.metrics.whole.Observe(elapsed.Seconds())
}
