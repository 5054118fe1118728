package kvstore

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley"
)

// meters count what was read and written.
type meters struct {
	lookups, writes                              *prometheus.CounterVec
	readBytes, readTokens, writtenBytes, damaged prometheus.Counter
	seconds                                      prometheus.Histogram
	all                                          []prometheus.Collector
}

func newMeters(heldBytes func() float64, directions ...*direction) *meters {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	outcome := []string{"outcome"}
	m := &meters{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_kv_store_lookups_total",
			Help: "Prompts looked up in the store of keys and values, by outcome: whole, or why blocks were missing."},
			outcome),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_kv_store_writes_total",
			Help: "Blocks to write to the store of keys and values, by outcome: written, there already, or why not."},
			outcome),
		readBytes: counter("parley_kv_store_read_bytes_total", "Bytes of keys and values read from the store."),
		readTokens: counter("parley_kv_store_read_tokens_total",
			"Tokens whose keys and values were read from the store."),
		writtenBytes: counter("parley_kv_store_written_bytes_total", "Bytes of keys and values written to the store."),
		damaged: counter("parley_kv_store_damaged_total",
			"Values in the store that were not what was written, and were removed."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "parley_kv_store_seconds",
			Help:    "Time that requests waited for the store of keys and values.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
	}
	held := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_kv_store_buffer_bytes",
		Help: "Memory held for blocks on their way to and from the store of keys and values."},
		heldBytes)
	m.all = []prometheus.Collector{
		m.lookups, m.writes, m.readBytes, m.readTokens, m.writtenBytes, m.damaged, m.seconds, held,
	}
	for _, w := range directions {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_kv_store_up",
			Help:        "1 while the store of keys and values is used, 0 while it is suspended after failures.",
			ConstLabels: prometheus.Labels{"verb": w.verb}}, func() float64 { return share(w.up()) }))
	}
	return m
}

// looked counts a lookup that was made.
func (m *meters) looked(t *parley.Transfer) {
	m.skipped(t.Miss)
	m.readBytes.Add(float64(t.Bytes))
	m.readTokens.Add(float64(t.CameTokens))
	m.seconds.Observe(t.Took.Seconds())
}

// skipped counts a lookup by its outcome.
func (m *meters) skipped(reason string) {
	if reason == "" {
		reason = "whole"
	}
	m.lookups.WithLabelValues(reason).Inc()
}

// wrote counts what became of blocks.
func (m *meters) wrote(outcome string, blocks int) {
	m.writes.WithLabelValues(outcome).Add(float64(blocks))
}
