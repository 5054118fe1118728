package admin

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTimesAndEnds reads the counters twice, as a registry gives them, and wants
// what was observed between.
func TestTimesAndEnds(t *testing.T) {
	registry := prometheus.NewRegistry()
	histogram := func(name string) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Buckets: []float64{0.1, 1, 10}})
		registry.MustRegister(h)
		return h
	}
	ttft, decode, whole := histogram("parley_ttft_seconds"), histogram("parley_decode_seconds"), histogram(
		"parley_answer_seconds")
	stages := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "parley_stage_seconds",
		Buckets: []float64{0.1, 1, 10}}, []string{"stage"})
	ends := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_finish_total"}, []string{"reason"})
	registry.MustRegister(stages, ends)
	h := NewHistory()
	var happened Sample
	read := func(at int64) {
		gathered, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		happened, _ = h.Add(Read(gathered, time.Unix(at, 0)))
	}
	ends.WithLabelValues("stop").Add(7)
	read(100)
	for _, seconds := range []float64{0.05, 0.5, 0.6, 20} {
		ttft.Observe(seconds)
	}
	decode.Observe(5)
	whole.Observe(6)
	stages.WithLabelValues("queue").Observe(0.05)
	stages.WithLabelValues("prefill").Observe(0.5)
	stages.WithLabelValues("write").Observe(9)
	ends.WithLabelValues("stop").Add(2)
	ends.WithLabelValues("length").Inc()
	read(115)
	p := h.Now(nil)
	if x := p.Times; x.Queue.Count != 1 || x.Queue.P99 > 0.1 || x.Prefill.Count != 1 || x.Prefill.P50 < 0.1 ||
		x.Prefill.P50 > 1 || x.Decode.P50 < 1 || x.Whole.P50 < 1 {
		t.Errorf("times %+v", x)
	}
	if len(p.Finishes) != 2 || p.Finishes["stop"] != 2 || p.Finishes["length"] != 1 {
		t.Errorf("ends %v", p.Finishes)
	}
	want := Latencies{{High: 0.1, Count: 1}, {Low: 0.1, High: 1, Count: 2}, {Low: 10, Count: 1}}
	if !slices.Equal(happened.TTFT, want) || !slices.Equal(h.TTFTBounds(), []float64{0.1, 1, 10}) {
		t.Errorf("first tokens %v within %v, want %v", happened.TTFT, h.TTFTBounds(), want)
	}
}
