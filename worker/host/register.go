package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley/engine"
)

// A register enters the metrics of one model into Prometheus. It alone knows
// that each of them names its model, and that some have a second name: where
// vLLM has the same metric it stands under vLLM's name too, so that the
// dashboards and routers people have read us as they are.
type register struct{ labelled prometheus.Registerer }

func newRegister(r prometheus.Registerer, model string) register {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	return register{prometheus.WrapRegistererWith(prometheus.Labels{"model_name": model}, r)}
}

// A title is a metric's names, either of which may be empty, and what it says.
type title struct{ name, vllm, help string }

// enter registers what build returns, once for each name. Labels are pairs of a
// name and a value that tell series of one name apart.
func enter[C prometheus.Collector](r register, t title, labels []string, build func(prometheus.Opts) C) (all []C) {
	pairs := prometheus.Labels{}
	for i := 0; i < len(labels); i += 2 {
		pairs[labels[i]] = labels[i+1]
	}
	for _, name := range []string{t.name, t.vllm} {
		if name == "" {
			continue
		}
		c := build(prometheus.Opts{Name: name, Help: t.help, ConstLabels: pairs})
		r.labelled.MustRegister(c)
		all = append(all, c)
	}
	return all
}

// observers passes values to several observers.
type observers []prometheus.Histogram

// Observe passes v to all of them.
func (o observers) Observe(v float64) {
	for _, x := range o {
		x.Observe(v)
	}
}

func (r register) histogram(t title, buckets []float64, labels ...string) observers {
	return enter(r, t, labels, func(o prometheus.Opts) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: o.Name, Help: o.Help, ConstLabels: o.ConstLabels,
			Buckets: buckets})
	})
}

// counters count the same under several names.
type counters []prometheus.Counter

func (c counters) add(v int) {
	for _, x := range c {
		x.Add(float64(v))
	}
}

func (r register) counter(t title, labels ...string) counters {
	return enter(r, t, labels, func(o prometheus.Opts) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(o))
	})
}

// A reading is one number of an engine's state.
type reading func(engine.Stats) float64

// of asks the engine anew each time.
func (read reading) of(e *engine.Engine) func() float64 {
	return func() float64 { return read(e.Stats()) }
}

// gauge registers a number that rises and falls.
func (r register) gauge(e *engine.Engine, t title, read reading, labels ...string) {
	enter(r, t, labels, func(o prometheus.Opts) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts(o), read.of(e))
	})
}

// total registers a number that only grows.
func (r register) total(e *engine.Engine, t title, read reading, labels ...string) {
	enter(r, t, labels, func(o prometheus.Opts) prometheus.CounterFunc {
		return prometheus.NewCounterFunc(prometheus.CounterOpts(o), read.of(e))
	})
}
