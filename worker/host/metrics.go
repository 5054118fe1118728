package host

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/spec"
)

// metrics are what an engine tells Prometheus, under our own names and, where
// vLLM has the same, under vLLM's, so that the dashboards and routers people
// have read us as they are.
type metrics struct {
	ttft, gap, queue, prefill, decode, step, batch prometheus.Observer
	prompt, cached, output                         counters
	finished                                       map[string]counters
	registry                                       prometheus.Registerer
	model                                          string
	slo                                            parley.SLO
	kept, broken                                   [parley.Classes]counters
}

var (
	latencyBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	sizeBuckets    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// newMetrics registers the metrics of one model. Without a registry nothing is
// kept.
func newMetrics(r prometheus.Registerer, model string, slo parley.SLO) *metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	m := &metrics{registry: r, model: model, slo: slo}
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
	for c := range parley.Class(parley.Classes) {
		m.kept[c] = m.labelled("parley_engine_slo_requests_total", "", "Completed requests by class and whether the objectives for TTFT and time per token were met.", prometheus.Labels{"class": c.String(), "met": "true"})
		m.broken[c] = m.labelled("parley_engine_slo_requests_total", "", "Completed requests by class and whether the objectives for TTFT and time per token were met.", prometheus.Labels{"class": c.String(), "met": "false"})
	}
	m.finished = map[string]counters{}
	for _, reason := range []string{string(parley.FinishStop), string(parley.FinishLength), engine.FinishAbort} {
		m.finished[reason] = m.labelled("parley_engine_answers_total", "vllm:request_success_total", "Answers that ended, by reason; several choices of a request count each.",
			prometheus.Labels{"finished_reason": reason})
	}
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
	return m.labelled(name, alias, help, prometheus.Labels{})
}

func (m *metrics) labelled(name, alias, help string, labels prometheus.Labels) counters {
	var all counters
	maps.Copy(labels, m.labels())
	for _, n := range []string{name, alias} {
		if n == "" {
			continue
		}
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: n, Help: help, ConstLabels: labels})
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
func (m *metrics) gauges(e *engine.Engine, blockBytes int64) {
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
	m.guesses(e)
	m.tiers(e, blockBytes)
	for c := range parley.Class(parley.Classes) {
		class := prometheus.Labels{"class": c.String()}
		gauge("parley_engine_waiting", "Requests waiting.", func(s engine.Stats) float64 { return float64(s.Waiting[c]) }, class)
		gauge("parley_engine_fairness", "Jain's index of the service that present tenants have had.",
			func(s engine.Stats) float64 { return s.Fairness[c] }, prometheus.Labels{"class": c.String()})
	}
}

// guesses registers what came of guessing ahead: by drafter under our names,
// added up under vLLM's.
func (m *metrics) guesses(e *engine.Engine) {
	for _, g := range []struct {
		name, alias, help string
		of                func(engine.Guesses) uint64
	}{
		{"parley_engine_guess_rounds_total", "vllm:spec_decode_num_drafts_total", "How often tokens were guessed ahead for a sequence.", func(g engine.Guesses) uint64 { return g.Rounds }},
		{"parley_engine_guessed_tokens_total", "vllm:spec_decode_num_draft_tokens_total", "Tokens guessed ahead.", func(g engine.Guesses) uint64 { return g.Guessed }},
		{"parley_engine_guessed_right_tokens_total", "vllm:spec_decode_num_accepted_tokens_total", "Guessed tokens that came true.", func(g engine.Guesses) uint64 { return g.Right }},
	} {
		for d := range spec.Drafter(spec.Drafters) {
			labels := prometheus.Labels{"drafter": d.String()}
			maps.Copy(labels, m.labels())
			m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: g.name, Help: g.help, ConstLabels: labels},
				func() float64 { return float64(g.of(e.Stats().Guesses[d])) }))
		}
		m.count("", g.alias, g.help, func() (sum uint64) {
			for _, by := range e.Stats().Guesses {
				sum += g.of(by)
			}
			return sum
		})
	}
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "parley_engine_draft_seconds_total", Help: "Time the draft model took.", ConstLabels: m.labels()},
		func() float64 { return e.Stats().DraftTime.Seconds() }))
	m.count("parley_engine_draft_failures_total", "", "Times the draft model went wrong and nothing was guessed.",
		func() uint64 { return e.Stats().DraftFailures })
}

// tierNames are what metrics call the tiers.
var tierNames = [kv.Tiers]string{"device", "host", "disk"}

// tiers registers what the memory behind the device does, and why prompts were
// not found in it.
func (m *metrics) tiers(e *engine.Engine, blockBytes int64) {
	number := func(name, help string, labels prometheus.Labels, of func(engine.Stats) float64) {
		maps.Copy(labels, m.labels())
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return of(e.Stats()) }))
	}
	bytes := func(blocks uint64) float64 { return float64(blocks) * float64(blockBytes) }
	for t, name := range tierNames {
		for state, of := range map[string]func(kv.Use) int{
			"in_use": func(u kv.Use) int { return u.InUse }, "cached": func(u kv.Use) int { return u.Cached + u.Copies }, "free": func(u kv.Use) int { return u.Free },
		} {
			labels := prometheus.Labels{"tier": name, "state": state}
			maps.Copy(labels, m.labels())
			m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "parley_engine_kv_bytes", Help: "Bytes of keys and values by tier and what they are doing.", ConstLabels: labels},
				func() float64 { return bytes(uint64(of(e.Stats().Tiers[t]))) }))
		}
		tier := func() prometheus.Labels { return prometheus.Labels{"tier": name} }
		number("parley_engine_prefix_hit_blocks_total", "Blocks found in the prefix cache, by tier.", tier(), func(s engine.Stats) float64 { return float64(s.Cache.HitBlocks[t]) })
		number("parley_engine_evicted_blocks_total", "Blocks that left a tier for want of room.", tier(), func(s engine.Stats) float64 { return float64(s.Cache.Evicted[t]) })
		for u, to := range tierNames {
			way := func() prometheus.Labels { return prometheus.Labels{"from": name, "to": to} }
			number("parley_engine_copied_bytes_total", "Bytes of keys and values copied between tiers.", way(), func(s engine.Stats) float64 { return bytes(s.Copied[t][u].Blocks) })
			number("parley_engine_copy_seconds_total", "Time that copies between tiers took; divided by the bytes, what a gigabyte costs.", way(), func(s engine.Stats) float64 { return s.Copied[t][u].Time.Seconds() })
		}
	}
	for reason := range kv.Misses {
		number("parley_engine_prefix_misses_total", "Admitted prompts by why the first block that was not found was not there.", prometheus.Labels{"reason": kv.Miss(reason).String()},
			func(s engine.Stats) float64 { return float64(s.Cache.Misses[reason]) })
	}
	m.count("parley_engine_damaged_blocks_total", "", "Blocks that could not be copied, or whose content was lost.", func() uint64 { return e.Stats().Damaged })
	m.count("parley_engine_repairs_total", "", "Times that blocks were not accounted for and the account was repaired.", func() uint64 { return e.Stats().Repairs })
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
		Finish: func(reason string) { m.finished[reason].add(1) },
		Done: func(r *parley.Request, u *parley.Usage) {
			m.judge(r, u)
			m.prompt.add(u.PromptTokens)
			m.cached.add(u.CachedTokens)
			m.output.add(u.OutputTokens)
			m.queue.Observe(u.Queued.Seconds())
			m.prefill.Observe(u.Prefill.Seconds())
			m.decode.Observe(u.Decode.Seconds())
		},
	}
}

// judge counts whether the request was served as promised.
func (m *metrics) judge(r *parley.Request, u *parley.Usage) {
	var tpot time.Duration
	if later := u.OutputTokens/max(1, r.Choices) - 1; later > 0 {
		tpot = u.Decode / time.Duration(later)
	}
	verdict := &m.broken
	if m.slo.Met(u.Queued+u.Prefill, tpot, u.PromptTokens, u.CachedTokens) {
		verdict = &m.kept
	}
	verdict[r.Class].add(1)
}
