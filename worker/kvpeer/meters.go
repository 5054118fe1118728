package kvpeer

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/worker/kvwire"
)

// meters count what was fetched and given.
type meters struct {
	fetches, served          *prometheus.CounterVec
	fetchedBytes, givenBytes *prometheus.CounterVec
	fetchedTokens            prometheus.Counter
	seconds                  prometheus.Histogram
}

func newMeters(p *Peer, registry prometheus.Registerer) *meters {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"transport"})
	}
	outcome := []string{"outcome"}
	m := &meters{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_kv_transfer_fetches_total",
			Help: "Fetches of blocks from other workers, by outcome: whole, or why blocks were missing."}, outcome),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_kv_transfer_served_total",
			Help: "Fetches by other workers, by outcome: whole, or why not all blocks were sent."},
			outcome),
		fetchedBytes: counter("parley_kv_transfer_fetched_bytes_total",
			"Bytes of keys and values fetched from other workers, by transport: tcp or shared_memory."),
		fetchedTokens: prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_kv_transfer_fetched_tokens_total",
			Help: "Tokens whose keys and values were fetched from other workers."}),
		givenBytes: counter("parley_kv_transfer_served_bytes_total",
			"Bytes of keys and values sent to other workers, by transport: tcp or shared_memory."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "parley_kv_transfer_seconds",
			Help:    "Time that requests waited for blocks from other workers.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_kv_transfer_buffer_bytes",
		Help: "Memory held for blocks on their way to and from other workers."},
		func() float64 { return float64(p.Held()) })
	if registry != nil {
		registry.MustRegister(m.fetches, m.served, m.fetchedBytes, m.fetchedTokens, m.givenBytes, m.seconds, held)
	}
	return m
}

func (m *meters) took(t *parley.Transfer) {
	m.fetches.WithLabelValues(outcomeOf(t.Miss)).Inc()
	m.fetchedBytes.WithLabelValues(transportOf(t.Shared)).Add(float64(t.Bytes))
	m.fetchedTokens.Add(float64(t.CameTokens))
	m.seconds.Observe(t.Took.Seconds())
}

func (m *meters) gave(d kvwire.Delivery) {
	if d.Stream == 0 {
		m.served.WithLabelValues(outcomeOf(d.Miss)).Inc()
	}
	m.givenBytes.WithLabelValues(transportOf(d.Shared)).Add(float64(d.Bytes))
}

func outcomeOf(miss string) string {
	if miss == "" {
		return "whole"
	}
	return miss
}

func transportOf(shared bool) string {
	if shared {
		return "shared_memory"
	}
	return "tcp"
}
