package infer

import (
	"parley"

	"github.com/prometheus/client_golang/prometheus"
)

// A queueCollector reads the queues and breakers when metrics are scraped.
type queueCollector struct{ models func() []*Model }

var (
	queueWaiting = prometheus.NewDesc("parley_queue_waiting", "Queued requests.",
		[]string{"model", "pool", "tier"}, nil)
	queueWork = prometheus.NewDesc("parley_queue_work_tokens",
		"Expected tokens of the queued requests.", []string{"model", "pool"}, nil)
	queueHeld = prometheus.NewDesc("parley_queue_held_tokens", "Prompt tokens dispatched to workers and not begun.",
		[]string{"model", "pool"}, nil)
	queueLimit = prometheus.NewDesc("parley_queue_held_limit_tokens",
		"Learned limit of the tokens dispatched to workers and not begun.", []string{"model", "pool"}, nil)
	queuePace = prometheus.NewDesc("parley_queue_tokens_per_second",
		"Measured tokens per second of the workers while requests are queued; 0 if not known yet.",
		[]string{"model", "pool"}, nil)
	queueWait = prometheus.NewDesc("parley_queue_estimated_wait_seconds", "Estimated time to serve all queued work.",
		[]string{"model", "pool"}, nil)
	queueShed = prometheus.NewDesc("parley_queue_shedding_ratio",
		"Share of arriving requests that load shedding rejects.", []string{"model", "pool", "tier"}, nil)
	breakerState = prometheus.NewDesc("parley_breaker_state",
		"State of a circuit breaker: 0 closed, 1 trying, 2 open.", []string{"kind", "model", "pool"}, nil)
)

// Describe names what is collected.
func (q queueCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueWaiting, queueWork, queueHeld, queueLimit, queuePace, queueWait,
		queueShed, breakerState} {
		out <- d
	}
}

// Collect reads every queue once.
func (q queueCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, m := range q.models() {
		for _, t := range m.queues.of {
			t.collect(gauge)
		}
	}
}

// collect reads one queue and its breakers.
func (t *poolQueue) collect(gauge func(d *prometheus.Desc, v float64, labels ...string)) {
	l, now := t.load(), t.now()
	for class := range parley.Class(parley.Classes) {
		gauge(queueWaiting, float64(l.Waiting[class]), t.served.ID, t.pool, class.String())
		gauge(queueShed, l.Shedding[class], t.served.ID, t.pool, class.String())
	}
	gauge(queueWork, float64(l.Work), t.served.ID, t.pool)
	gauge(queueHeld, float64(l.Held), t.served.ID, t.pool)
	gauge(queueLimit, float64(l.Limit), t.served.ID, t.pool)
	gauge(queuePace, l.PerSecond, t.served.ID, t.pool)
	gauge(queueWait, l.Standing.Seconds(), t.served.ID, t.pool)
	gauge(breakerState, float64(t.model.state(now)), "model", t.served.ID, t.pool)
	gauge(breakerState, float64(t.worker.state(now)), "worker", t.served.ID, t.pool)
}
