package infer

import (
	"time"

	"parley"

	"github.com/prometheus/client_golang/prometheus"
)

// admissionMetrics count what becomes of requests before they reach a worker.
type admissionMetrics struct {
	shed *prometheus.CounterVec
	wait *prometheus.HistogramVec
}

func newAdmissionMetrics() *admissionMetrics {
	return &admissionMetrics{
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_shed_total",
			Help: "Rejected requests by reason (late, full, overload, displaced, expired, breaker, " +
				"no_worker), tier and pool of workers."}, []string{"reason", "tier", "pool"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "parley_queue_wait_seconds",
			Help:    "Time that requests were queued, by tier and pool of workers.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}, []string{"tier", "pool"}),
	}
}

func (m *admissionMetrics) turnedAway(why string, class parley.Class, pool string) {
	m.shed.WithLabelValues(why, class.String(), pool).Inc()
}

// poolMetrics are those of one queue. Its lock is held.
type poolMetrics struct {
	*admissionMetrics
	// waits are the histograms of the time in the queue, nil for classes of which no request came.
	waits [parley.Classes]prometheus.Observer
}

func (m *poolMetrics) waited(class parley.Class, pool string, d time.Duration) {
	if m.waits[class] == nil {
		m.waits[class] = m.wait.WithLabelValues(class.String(), pool)
	}
	m.waits[class].Observe(d.Seconds())
}
