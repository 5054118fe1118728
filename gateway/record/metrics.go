package record

import (
	"errors"
	"math"
	"time"

	"parley"
	"parley/gateway/ledger"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are what the gateway counts. Names and meanings are an interface:
// dashboards and alerts stand on them.
type Metrics struct {
	requests      *prometheus.CounterVec
	inFlight      prometheus.Gauge
	seconds       *prometheus.HistogramVec
	firstToken    *prometheus.HistogramVec
	betweenTokens *prometheus.HistogramVec
	// promises count how each objective is kept.
	promises     *promiseMetrics
	promptTokens prometheus.Counter
	outputTokens prometheus.Counter
	cachedTokens prometheus.Counter
	finishes     *prometheus.CounterVec
	// outcomes are what availability is computed from.
	outcomes    *prometheus.CounterVec
	constrained *prometheus.CounterVec
	retries     prometheus.Counter
	// stages has an observer for each stage.
	stageSeconds *prometheus.HistogramVec
	stages       [ledger.StageCount]prometheus.Observer
	// decode and whole are how long answers were written, and took in all.
	decode, whole prometheus.Histogram
	// fallbacks counts models that were asked instead of another.
	fallbacks *prometheus.CounterVec
	// limited counts requests that a limit refused.
	limited *prometheus.CounterVec
	// findings counts what safety screens found, moderatorFailures the moderators that
	// did not answer.
	findings, moderatorFailures *prometheus.CounterVec
}

// NewRegistry returns a registry that already has the metrics of the Go runtime
// and of the process. Other packages add theirs to it.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// promised are buckets for times of which limit is promised: finest near it, and
// with an edge at it, so that how often it was kept is counted and not guessed.
func promised(limit, usual time.Duration) (edges []float64) {
	if limit == 0 {
		limit = usual
	}
	for _, share := range []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25,
		1.5, 2, 3, 5, 10, 20, 50} {
		edges = append(edges, share*limit.Seconds())
	}
	for last := edges[len(edges)-1]; last < slowest.Seconds(); edges = append(edges, last) {
		last *= 3
	}
	return edges
}

// slowest is what buckets reach: what waits in a queue or for a model to load takes minutes.
const slowest = 10 * time.Minute

func newMetrics(r *prometheus.Registry, objectives parley.Objectives) (*Metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string, least float64) prometheus.HistogramOpts {
		buckets := 1 + int(math.Ceil(math.Log2(slowest.Seconds()/least)))
		return prometheus.HistogramOpts{Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(least, 2, buckets)}
	}
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total",
			Help: "Finished HTTP requests by route and status; 499 is a client that hung up."},
			[]string{"route", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_requests_in_flight", Help: "Inference requests in progress."}),
		seconds: prometheus.NewHistogramVec(histogram(
			"parley_request_seconds", "Time from a request's arrival to the end of its answer, by route.", 0.001),
			[]string{"route"}),
		firstToken: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "parley_ttft_seconds",
			Help:    "Time from a request's arrival to the first token of its answer, by objective.",
			Buckets: promisedAll(objectives, func(s *parley.SLO) time.Duration { return s.TTFT }, time.Second),
		}, []string{"objective"}),
		betweenTokens: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "parley_inter_token_seconds", Help: "Time between two tokens of one choice, by objective.",
			Buckets: promisedAll(objectives, func(s *parley.SLO) time.Duration { return s.TPOT }, 50*time.Millisecond),
		}, []string{"objective"}),
		promptTokens: counter("parley_prompt_tokens_total",
			"Prompt tokens of answered requests, also of answers that were broken off, cached ones included."),
		outputTokens: counter("parley_output_tokens_total",
			"Generated tokens, including those of failed requests."),
		cachedTokens: counter("parley_cached_tokens_total", "Prompt tokens found in a cache."),
		finishes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_finish_total",
			Help: "Finished choices by reason (stop, length, tool_calls), and requests that ended otherwise " +
				"(cancelled, error)."}, []string{"reason"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_outcomes_total",
			Help: "Finished inference requests by outcome: ok, failed (server error), turned_away (rejected under " +
				"load), limited (over a limit), refused (invalid) or cancelled (hang-up)."},
			[]string{"outcome"}),
		constrained: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_constrained_requests_total",
			Help: "Requests whose answer is held to a grammar, by what it is for: json_object, json_schema, regex, " +
				"choice or tools."}, []string{"kind"}),
		retries: counter("parley_client_retries_total", "Requests that a client marked as retries."),
	}
	m.findings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_safety_findings_total",
		Help: "What the safety screens found, by direction, category and what followed."},
		[]string{"direction", "category", "action"})
	m.moderatorFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_moderator_failures_total", Help: "Questions that a moderator outside did not answer."},
		[]string{"moderator"})
	m.stageSeconds = prometheus.NewHistogramVec(
		histogram("parley_stage_seconds", "Time in each stage on the way to the first token.", 0.00001),
		[]string{"stage"})
	for stage := range ledger.StageCount {
		m.stages[stage] = m.stageSeconds.WithLabelValues(stage.String())
	}
	m.limited = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_limited_requests_total", Help: "Requests that a limit of their caller refused, by limit."},
		[]string{"limit"})
	m.fallbacks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_fallbacks_total", Help: "Requests for which another model was asked, by both and by cause."},
		[]string{"from", "to", "cause"})
	m.decode = prometheus.NewHistogram(
		histogram("parley_decode_seconds", "Time from the first token of an answer to its last.", 0.001))
	m.whole = prometheus.NewHistogram(histogram("parley_answer_seconds",
		"Time from a request's arrival to the end of its answer, for answered requests.", 0.001))
	m.promises = newPromiseMetrics(objectives, m.firstToken, m.betweenTokens)
	return m, errors.Join(m.register(r), m.promises.register(r))
}

func (m *Metrics) register(r *prometheus.Registry) error {
	var problems []error
	for _, c := range []prometheus.Collector{m.requests, m.inFlight, m.seconds, m.firstToken, m.betweenTokens,
		m.promptTokens, m.outputTokens, m.cachedTokens, m.finishes, m.outcomes, m.constrained, m.retries,
		m.stageSeconds, m.decode, m.whole, m.limited, m.fallbacks, m.findings, m.moderatorFailures} {
		problems = append(problems, r.Register(c))
	}
	return errors.Join(problems...)
}

// Limited counts a request that a limit refused.
func (m *Metrics) Limited(by string) { m.limited.WithLabelValues(by).Inc() }

// Found counts a finding of a safety screen.
func (m *Metrics) Found(direction, category, action string) {
	m.findings.WithLabelValues(direction, category, action).Inc()
}

// ModeratorFailed counts a question that a moderator did not answer.
func (m *Metrics) ModeratorFailed(name string) { m.moderatorFailures.WithLabelValues(name).Inc() }
