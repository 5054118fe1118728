package record

import (
	"errors"
	"math"
	"slices"
	"time"

	"parley"

	"github.com/prometheus/client_golang/prometheus"
)

// promiseMetrics count how often each objective was kept, so that alerts need to
// know neither its limit nor its share.
type promiseMetrics struct {
	total, missed *prometheus.CounterVec
	limit, share  *prometheus.GaugeVec
	// of has the numbers of each objective.
	of []promiseCounts
}

// promiseCounts are those of one objective: its first and its later tokens.
type promiseCounts struct{ first, later promiseCount }

// A promiseCount counts times, and those of them that are over a limit.
type promiseCount struct {
	limit         time.Duration // 0 promises nothing
	times         prometheus.Observer
	total, missed prometheus.Counter
}

// see counts a time.
func (p *promiseCount) see(took time.Duration) {
	p.times.Observe(took.Seconds())
	if p.limit == 0 {
		return
	}
	p.total.Inc()
	if took > p.limit {
		p.missed.Inc()
	}
}

func newPromiseMetrics(objectives parley.Objectives, first, later *prometheus.HistogramVec) *promiseMetrics {
	labels := []string{"objective", "indicator"}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	m := &promiseMetrics{
		total: counter("parley_objective_total",
			"First tokens (indicator ttft) and gaps between tokens (tpot) under an objective."),
		missed: counter("parley_objective_missed_total", "First tokens and gaps that missed their objective."),
		limit:  gauge("parley_objective_limit_seconds", "Time limit of an objective."),
		share:  gauge("parley_objective_share", "Share that must meet the objective, such as 0.99."),
	}
	for i := range objectives {
		o := &objectives[i]
		m.of = append(m.of, promiseCounts{
			first: m.count(o.Name, "ttft", o.TTFT, o.TTFTShare, first),
			later: m.count(o.Name, "tpot", o.TPOT, o.TPOTShare, later),
		})
	}
	return m
}

func (m *promiseMetrics) count(
	objective, indicator string, limit time.Duration, share float64, times *prometheus.HistogramVec,
) promiseCount {
	c := promiseCount{limit: limit, times: times.WithLabelValues(objective)}
	if limit > 0 {
		c.total = m.total.WithLabelValues(objective, indicator)
		c.missed = m.missed.WithLabelValues(objective, indicator)
		m.limit.WithLabelValues(objective, indicator).Set(limit.Seconds())
		m.share.WithLabelValues(objective, indicator).Set(share)
	}
	return c
}

func (m *promiseMetrics) register(r *prometheus.Registry) error {
	return errors.Join(r.Register(m.total), r.Register(m.missed), r.Register(m.limit), r.Register(m.share))
}

// promisedAll are buckets for times of which several limits are promised: those of the
// last, which is for all, and an edge at and near each other one.
func promisedAll(objectives parley.Objectives, limit func(*parley.SLO) time.Duration, usual time.Duration) []float64 {
	last := len(objectives) - 1
	edges := promised(limit(&objectives[last].SLO), usual)
	for i := range objectives[:last] {
		for _, part := range []float64{0.5, 0.8, 1, 1.25, 2} {
			if own := limit(&objectives[i].SLO).Seconds(); own > 0 {
				edges = append(edges, part*own)
			}
		}
	}
	slices.Sort(edges)
	return slices.CompactFunc(edges, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
}
