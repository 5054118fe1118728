package host

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/engine"
)

// metrics are what an engine tells Prometheus, under our own names and, where
// vLLM has the same, under vLLM's, so that the dashboards and routers people
// have read us as they are.
type metrics struct {
	ttft, gap, queue, prefill, decode, step, batch prometheus.Observer
	prompt, cached, output, done                   counters
	registry                                       prometheus.Registerer
	model                                          string
}

var (
	latencyBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	sizeBuckets    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// newMetrics registers the metrics of one model. Without a registry nothing is
// kept.
func newMetrics(r prometheus.Registerer, model string) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{registry: r, model: model}
	m.ttft = m.histogram("parley_engine_ttft_seconds", "vllm:time_to_first_token_seconds", "Time from a request's arrival at the engine to its first token.", latencyBuckets)
	m.gap = m.histogram("parley_engine_inter_token_seconds", "vllm:inter_token_latency_seconds", "Time between two tokens of an answer.", latencyBuckets)
	m.queue = m.histogram("parley_engine_queue_seconds", "vllm:request_queue_time_seconds", "Time a request waited before its first step.", latencyBuckets)
	m.prefill = m.histogram("parley_engine_prefill_seconds", "vllm:request_prefill_time_seconds", "Time from a request's first step to its first token.", latencyBuckets)
	m.decode = m.histogram("parley_engine_decode_seconds", "vllm:request_decode_time_seconds", "Time from a request's first token to its last.", latencyBuckets)
	m.step = m.histogram("parley_engine_step_seconds", "", "Time one forward pass takes.", latencyBuckets)
	m.batch = m.histogram("parley_engine_step_tokens", "vllm:iteration_tokens_total", "Tokens computed in one forward pass.", sizeBuckets)
	m.prompt = m.counter("parley_engine_prompt_tokens_total", "vllm:prompt_tokens_total", "Prompt tokens of completed requests.")
	m.cached = m.counter("parley_engine_cached_tokens_total", "vllm:prompt_tokens_cached_total", "Prompt tokens that were not computed again.")
	m.output = m.counter("parley_engine_output_tokens_total", "vllm:generation_tokens_total", "Tokens chosen for completed requests.")
	m.done = m.counter("parley_engine_requests_total", "vllm:request_success_total", "Completed requests.")
	return m
}

// observers tells several observers the same.
type observers []prometheus.Observer

// Observe tells all of them.
func (o observers) Observe(v float64) {
	for _, x := range o {
		x.Observe(v)
	}
}

func (m *metrics) labels() prometheus.Labels { return prometheus.Labels{"model_name": m.model} }

func (m *metrics) histogram(name, alias, help string, buckets []float64) prometheus.Observer {
	var all observers
	for _, n := range []string{name, alias} {
		if n == "" {
			continue
		}
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: n, Help: help, Buckets: buckets, ConstLabels: m.labels()})
		m.registry.MustRegister(h)
		all = append(all, h)
	}
	return all
}

func (m *metrics) counter(name, alias, help string) counters {
	var all counters
	for _, n := range []string{name, alias} {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: n, Help: help, ConstLabels: m.labels()})
		m.registry.MustRegister(c)
		all = append(all, c)
	}
	return all
}

// counters count the same under several names.
type counters []prometheus.Counter

func (c counters) add(v int) {
	for _, x := range c {
		x.Add(float64(v))
	}
}

// gauges registers what can be asked of a running engine.
func (m *metrics) gauges(e *engine.Engine) {
	gauge := func(name, help string, of func(engine.Stats) float64, labels prometheus.Labels) {
		maps.Copy(labels, m.labels())
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return of(e.Stats()) }))
	}
	running := func(s engine.Stats) float64 { return float64(s.Running) }
	used := func(s engine.Stats) float64 { return float64(s.Pool.InUse) / float64(s.Pool.Total) }
	gauge("parley_engine_running", "Sequences being computed.", running, prometheus.Labels{})
	gauge("vllm:num_requests_running", "Sequences being computed.", running, prometheus.Labels{})
	gauge("parley_engine_kv_usage", "Share of the key/value pool in use.", used, prometheus.Labels{})
	gauge("vllm:kv_cache_usage_perc", "Share of the key/value pool in use.", used, prometheus.Labels{})
	gauge("vllm:num_requests_waiting", "Requests waiting.", func(s engine.Stats) float64 {
		return float64(s.Waiting[0] + s.Waiting[1] + s.Waiting[2])
	}, prometheus.Labels{})
	m.count("parley_engine_prefix_tokens_total", "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
		func() uint64 { return e.Stats().Cache.AskedTokens })
	m.count("parley_engine_prefix_hit_tokens_total", "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
		func() uint64 { return e.Stats().Cache.HitTokens })
	m.count("parley_engine_preemptions_total", "vllm:num_preemptions_total", "Sequences that had to make room for others.",
		func() uint64 { return e.Stats().Preempted })
	m.count("parley_engine_preempted_tokens_total", "", "Computed tokens that preempted sequences lost.",
		func() uint64 { return e.Stats().Lost })
	m.count("parley_engine_guessed_tokens_total", "vllm:spec_decode_num_draft_tokens_total", "Tokens guessed ahead.",
		func() uint64 { return e.Stats().Guessed })
	m.count("parley_engine_guessed_right_tokens_total", "vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that came true.",
		func() uint64 { return e.Stats().Right })
	for c := range parley.Class(parley.Classes) {
		class := prometheus.Labels{"class": c.String()}
		gauge("parley_engine_waiting", "Requests waiting.", func(s engine.Stats) float64 { return float64(s.Waiting[c]) }, class)
		gauge("parley_engine_fairness", "Jain's index of the service that present tenants have had.",
			func(s engine.Stats) float64 { return s.Fairness[c] }, prometheus.Labels{"class": c.String()})
	}
}

// count registers a number that only grows, under both its names.
func (m *metrics) count(name, alias, help string, of func() uint64) {
	for _, n := range []string{name, alias} {
		if n != "" {
			m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: n, Help: help, ConstLabels: m.labels()},
				func() float64 { return float64(of()) }))
		}
	}
}

// observer returns what the engine calls.
func (m *metrics) observer() engine.Observer {
	return engine.Observer{
		Step: func(_, tokens int, took time.Duration) {
			m.step.Observe(took.Seconds())
			m.batch.Observe(float64(tokens))
		},
		Token: func(first bool, after time.Duration) {
			if first {
				m.ttft.Observe(after.Seconds())
			} else {
				m.gap.Observe(after.Seconds())
			}
		},
		Done: func(_ *parley.Request, u *parley.Usage) {
			m.done.add(1)
			m.prompt.add(u.PromptTokens)
			m.cached.add(u.CachedTokens)
			m.output.add(u.OutputTokens)
			m.queue.Observe(u.Queued.Seconds())
			m.prefill.Observe(u.Prefill.Seconds())
			m.decode.Observe(u.Decode.Seconds())
		},
	}
}
