package host

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/engine"
)

// metrics are what requests tell Prometheus while an engine answers them. What
// can be asked of the engine itself is in readings.
type metrics struct {
	register
	ttft, gap, queue, prefill, decode, step, batch observers
	seatWait, memoryWait, turnWait                 observers
	prompt, cached, output                         counters
	finished                                       map[string]counters
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
	m := &metrics{register: newRegister(r, model), slo: slo}
	m.ttft = m.histogram(title{"parley_engine_ttft_seconds", "vllm:time_to_first_token_seconds",
		"Time from a request's arrival at the engine to its first token."}, latencyBuckets)
	m.gap = m.histogram(title{"parley_engine_inter_token_seconds", "vllm:inter_token_latency_seconds",
		"Time between two tokens of an answer."}, latencyBuckets)
	m.queue = m.histogram(title{"parley_engine_queue_seconds", "vllm:request_queue_time_seconds",
		"Time a request waited before its first step."}, latencyBuckets)
	waits := title{"parley_engine_wait_seconds", "",
		"Time a request waited before its first step, by what for: a seat, memory, or its share of a step."}
	m.seatWait = m.histogram(waits, latencyBuckets, "for", "seat")
	m.memoryWait = m.histogram(waits, latencyBuckets, "for", "memory")
	m.turnWait = m.histogram(waits, latencyBuckets, "for", "turn")
	m.prefill = m.histogram(title{"parley_engine_prefill_seconds", "vllm:request_prefill_time_seconds",
		"Time from a request's first step to its first token."}, latencyBuckets)
	m.decode = m.histogram(title{"parley_engine_decode_seconds", "vllm:request_decode_time_seconds",
		"Time from a request's first token to its last."}, latencyBuckets)
	m.step = m.histogram(title{"parley_engine_step_seconds", "", "Duration of a forward pass."}, latencyBuckets)
	m.batch = m.histogram(title{"parley_engine_step_tokens", "vllm:iteration_tokens_total",
		"Tokens computed in one forward pass."}, sizeBuckets)
	m.prompt = m.counter(title{"parley_engine_prompt_tokens_total", "vllm:prompt_tokens_total",
		"Prompt tokens of completed requests."})
	m.cached = m.counter(title{"parley_engine_cached_tokens_total", "vllm:prompt_tokens_cached_total",
		"Prompt tokens that hit the cache."})
	m.output = m.counter(title{"parley_engine_output_tokens_total", "vllm:generation_tokens_total",
		"Output tokens of completed requests."})
	judged := title{"parley_engine_slo_requests_total", "",
		"Completed requests by class and whether the objectives for TTFT and time per token were met."}
	for c := range parley.Class(parley.Classes) {
		m.kept[c] = m.counter(judged, "class", c.String(), "met", "true")
		m.broken[c] = m.counter(judged, "class", c.String(), "met", "false")
	}
	m.finished = map[string]counters{}
	ended := title{"parley_engine_answers_total", "vllm:request_success_total",
		"Answers that ended, by reason; several choices of a request count each."}
	for _, reason := range []string{string(parley.FinishStop), string(parley.FinishLength), engine.FinishAbort} {
		m.finished[reason] = m.counter(ended, "finished_reason", reason)
	}
	return m
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
			m.seatWait.Observe(u.SeatWait.Seconds())
			m.memoryWait.Observe(u.MemoryWait.Seconds())
			m.turnWait.Observe(u.TurnWait().Seconds())
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
