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
	whole, computed, choices                       observers
	promptSize, answerSize, answerMax              observers
	prompt, cached, output                         counters
	finished                                       map[string]counters
	slo                                            parley.SLO
	kept, broken                                   [parley.Classes]counters
}

var (
	latencyBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	sizeBuckets    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	// vllmLatencyBuckets are the bounds that vLLM has for whole requests, so that its
	// dashboards show the same quantiles.
	vllmLatencyBuckets = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
		7680}
	vllmChoiceBuckets = []float64{1, 2, 5, 10, 20}
)

// vllmTokenBuckets returns the bounds that vLLM has for tokens of a request: 1, 2, 5, 10 and
// so on, up to the context.
func vllmTokenBuckets(contextTokens int) (bounds []float64) {
	for power := 1; ; power *= 10 {
		for _, first := range []int{1, 2, 5} {
			if first*power > contextTokens {
				return bounds
			}
			bounds = append(bounds, float64(first*power))
		}
	}
}

// newMetrics registers the metrics of one model. Without a registry nothing is
// kept.
func newMetrics(r prometheus.Registerer, model string, contextTokens int, slo parley.SLO) *metrics {
	m := &metrics{register: newRegister(r, model), slo: slo}
	m.ttft = m.histogram(title{"parley_engine_ttft_seconds", "vllm:time_to_first_token_seconds",
		"Time from a request's arrival at the engine to its first token."}, latencyBuckets)
	m.gap = m.histogram(title{"parley_engine_inter_token_seconds", "vllm:inter_token_latency_seconds",
		"Time between two tokens of an answer."}, latencyBuckets)
	m.queue = m.histogram(title{"parley_engine_queue_seconds", "vllm:request_queue_time_seconds",
		"Time a request waited before its first step."}, latencyBuckets)
	waits := title{"parley_engine_wait_seconds", "",
		"Time a request waited before its first step, by what it waited for: a seat, memory, or its share of a step."}
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
	m.registerRequests(vllmTokenBuckets(contextTokens))
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

// registerRequests registers the sizes of whole requests, which vLLM alone has names for.
func (m *metrics) registerRequests(tokens []float64) {
	m.whole = m.histogram(title{"", "vllm:e2e_request_latency_seconds",
		"Time from a request's arrival at the engine to its last token."}, vllmLatencyBuckets)
	m.computed = m.histogram(title{"", "vllm:request_inference_time_seconds",
		"Time from a request's first step to its last token."}, vllmLatencyBuckets)
	m.promptSize = m.histogram(title{"", "vllm:request_prompt_tokens", "Prompt tokens of a request."}, tokens)
	m.answerSize = m.histogram(title{"", "vllm:request_generation_tokens", "Output tokens of a request."}, tokens)
	m.answerMax = m.histogram(title{"", "vllm:request_params_max_tokens",
		"Output tokens that a request allows."}, tokens)
	m.choices = m.histogram(title{"", "vllm:request_params_n", "Choices of a request."}, vllmChoiceBuckets)
}

// observeRequest observes a request that has ended.
func (m *metrics) observeRequest(r *parley.Request, u *parley.Usage) {
	m.whole.Observe((u.Queued + u.Prefill + u.Decode).Seconds())
	m.computed.Observe((u.Prefill + u.Decode).Seconds())
	m.promptSize.Observe(float64(u.PromptTokens))
	m.answerSize.Observe(float64(u.OutputTokens))
	if r.MaxTokens > 0 {
		m.answerMax.Observe(float64(r.MaxTokens))
	}
	m.choices.Observe(float64(max(r.Choices, 1)))
}

// observer returns what the engine calls.
func (m *metrics) observer() engine.Observer {
	return engine.Observer{
		Step: func(p engine.StepReport) {
			m.step.Observe(p.Took.Seconds())
			m.batch.Observe(float64(p.Rows))
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
			m.observeRequest(r, u)
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
