package gateway

import (
	"cmp"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/infer"
	"parley/gateway/ledger"
	"parley/gateway/openai"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what the gateway counts. Names and meanings are an interface:
// dashboards and alerts stand on them.
type metrics struct {
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
	// limited counts requests that a limit refused.
	limited *prometheus.CounterVec
	// safety counts what screens found, moderatorFailures whom they asked in vain.
	safety, moderatorFailures *prometheus.CounterVec
}

// NewRegistry returns a registry that already has the metrics of the Go runtime
// and of the process. Whoever has metrics of its own adds them to it.
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
	return edges
}

func newMetrics(r *prometheus.Registry, objectives parley.Objectives) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string, least float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(least, 2, 18)}
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_http_requests_total",
			Help: "Finished HTTP requests by route and status; 499 is a client that left."}, []string{"route", "code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_requests_in_flight", Help: "Inference requests that are being answered now."}),
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
			"Prompt tokens of answered requests, cached ones included."),
		outputTokens: counter("parley_output_tokens_total",
			"Tokens generated, also for requests that did not end well."),
		cachedTokens: counter("parley_cached_tokens_total", "Prompt tokens that did not have to be computed again."),
		finishes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_finish_total",
			Help: "Ended choices by reason (stop, length, tool_calls), and requests that ended otherwise " +
				"(cancelled, error)."}, []string{"reason"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_outcomes_total",
			Help: "Inference requests that ended, by outcome: ok, failed (our fault), turned_away (no room), " +
				"limited (over the tenant's limit), refused (wrong) or cancelled (the client left)."},
			[]string{"outcome"}),
		constrained: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_constrained_requests_total",
			Help: "Requests whose answer is held to a grammar, by what it is for: json_object, json_schema, regex, " +
				"choice or tools."}, []string{"kind"}),
		retries: counter("parley_client_retries_total", "Requests that a client says it has sent before."),
	}
	m.safety = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_safety_findings_total",
		Help: "What the safety screens found, by direction, category and what followed."},
		[]string{"direction", "category", "action"})
	m.moderatorFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "parley_moderator_failures_total", Help: "Questions that a moderator outside did not answer."},
		[]string{"moderator"})
	m.addStages(histogram("parley_stage_seconds", "Time in each stage on the way to the first token.", 0.00001))
	m.decode = prometheus.NewHistogram(
		histogram("parley_decode_seconds", "Time from the first token of an answer to its last.", 0.001))
	m.whole = prometheus.NewHistogram(histogram("parley_answer_seconds",
		"Time from a request's arrival to the end of its answer, of those that were answered.", 0.001))
	m.promises = newPromiseMetrics(objectives, m.firstToken, m.betweenTokens)
	return m, errors.Join(m.register(r), m.promises.register(r))
}

func (m *metrics) register(r *prometheus.Registry) error {
	var problems []error
	for _, c := range []prometheus.Collector{m.requests, m.inFlight, m.seconds, m.firstToken, m.betweenTokens,
		m.promptTokens, m.outputTokens, m.cachedTokens, m.finishes, m.outcomes, m.constrained, m.retries,
		m.stageSeconds, m.decode, m.whole, m.limited, m.safety, m.moderatorFailures} {
		problems = append(problems, r.Register(c))
	}
	return errors.Join(problems...)
}

// showMetrics answers GET /metrics.
func (g *Gateway) showMetrics(c *call) error {
	promhttp.HandlerFor(g.config.Registry, promhttp.HandlerOpts{}).ServeHTTP(c.response, c.request)
	return nil
}

// A story is what a call's log line tells of the inference.
type story struct {
	model                      string
	promptTokens, outputTokens int
	usage                      parley.Usage
	firstToken                 time.Duration
	// handed is when, after its arrival, the request was ready for a worker.
	handed time.Duration
	// lastTokenAt is when the newest token of each choice came.
	lastTokenAt []time.Time
	finish      parley.Finish
	// format and tools are what the answer is held to.
	format string
	tools  int
	// shared answers were computed for another request.
	shared bool
	// objective is the index of the one that holds for the request.
	objective int
	// routing is who computed the answer last; nil where there is one worker.
	routing *parley.Routing
}

// seeConstraint counts a request whose answer is held to a format, or to tools
// of which the model may call so many.
func (c *call) seeConstraint(f *openai.Format, tools int) {
	c.story.format, c.story.tools = f.Kind, tools
	if f.Kind != "" {
		c.gateway.metrics.constrained.WithLabelValues(f.Kind).Inc()
	}
	if tools > 0 {
		c.gateway.metrics.constrained.WithLabelValues("tools").Inc()
	}
}

// seeDelta keeps count of an answer as it comes.
func (c *call) seeDelta(choice int, came infer.Step) {
	s, m, d := &c.story, c.gateway.metrics, came.Delta
	now := c.gateway.config.Now()
	if d.Routing != nil {
		s.routing = d.Routing
	}
	if n := d.Count(); n > 0 {
		if s.firstToken == 0 {
			s.firstToken = now.Sub(c.started)
			if !c.background { // nobody waits, so it may wait for hours
				m.promises.of[s.objective].first.see(s.firstToken)
			}
		}
		s.outputTokens += n
		s.shared = came.Shared
		if !came.Shared {
			m.outputTokens.Add(float64(n))
		}
		c.seeTokens(choice, n, now)
	}
	if d.Finish != "" {
		s.finish = d.Finish
		m.finishes.WithLabelValues(string(d.Finish)).Inc()
	}
	if u := d.Usage; u != nil {
		s.usage.CachedTokens += u.CachedTokens
		s.usage.Miss = cmp.Or(s.usage.Miss, u.Miss)
		s.usage.Beside(u)
		m.promptTokens.Add(float64(u.PromptTokens))
		m.cachedTokens.Add(float64(u.CachedTokens))
	}
}

// seeTokens observes the time between the tokens of one choice.
func (c *call) seeTokens(choice, tokens int, now time.Time) {
	for choice >= len(c.story.lastTokenAt) {
		c.story.lastTokenAt = append(c.story.lastTokenAt, time.Time{})
	}
	if last := c.story.lastTokenAt[choice]; !last.IsZero() && !c.background {
		c.gateway.metrics.promises.of[c.story.objective].later.see(now.Sub(last) / time.Duration(tokens))
	}
	c.story.lastTokenAt[choice] = now
}

// finish counts a call that has ended and writes its log line.
func (g *Gateway) finish(c *call) {
	c.slot.release()
	c.bytes.release()
	c.tellUnnoted()
	c.unrevocable()
	status := cmp.Or(c.status, 200)
	code := parley.Code("")
	if c.err != nil {
		code = openai.CodeOf(c.err)
	}
	if code == parley.Cancelled {
		status = openai.StatusClosed
	}
	elapsed := g.config.Now().Sub(c.started)
	c.observeStages(elapsed)
	g.metrics.requests.WithLabelValues(c.route, strconv.Itoa(status)).Inc()
	g.metrics.seconds.WithLabelValues(c.route).Observe(elapsed.Seconds())
	if c.inference {
		g.metrics.inFlight.Dec()
		g.countInference(c, code)
		life := c.life(status, code, elapsed)
		g.endTrace(c, life, elapsed)
		g.operations.remember(life)
	}
	if ctx, level := c.request.Context(), c.level(status); g.config.Log.Enabled(ctx, level) {
		g.config.Log.LogAttrs(ctx, level, "request", c.attributes(status, code, elapsed)...)
	}
}

func (g *Gateway) countInference(c *call, code parley.Code) {
	g.metrics.outcomes.WithLabelValues(admin.OutcomeOf(code)).Inc()
	switch {
	case code == parley.Cancelled:
		g.metrics.finishes.WithLabelValues("cancelled").Inc()
	case c.err != nil:
		g.metrics.finishes.WithLabelValues("error").Inc()
	}
	if said := c.request.Header.Get("X-Stainless-Retry-Count"); said != "" {
		if n, err := strconv.Atoi(said); err == nil && n > 0 {
			g.metrics.retries.Inc()
		}
	}
}

// level keeps probes out of the log and faults of ours in sight.
func (c *call) level(status int) slog.Level {
	switch {
	case c.err != nil && openai.CodeOf(c.err) == parley.Internal:
		return slog.LevelError
	case status >= 500:
		return slog.LevelWarn
	case c.inference || c.err != nil:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (c *call) attributes(status int, code parley.Code, elapsed time.Duration) []slog.Attr {
	attributes := []slog.Attr{
		slog.String("id", c.id),
		slog.String("route", c.route),
		slog.Int("status", status),
		slog.Duration("elapsed", elapsed),
	}
	for _, a := range []struct{ name, value string }{
		{"client_id", c.clientRequestID()},
		{"organization", c.identity.Organization},
		{"user", c.identity.User},
		{"key", c.identity.Key},
		{"remote", c.remote()},
	} {
		if a.value != "" {
			attributes = append(attributes, slog.String(a.name, a.value))
		}
	}
	if s := &c.story; s.model != "" {
		attributes = append(attributes,
			slog.String("model", s.model),
			slog.Bool("stream", c.stream != nil),
			slog.Int("prompt_tokens", s.promptTokens),
			slog.Int("output_tokens", s.outputTokens),
			slog.Int("cached_tokens", s.usage.CachedTokens), slog.String("cache_miss", s.usage.Miss),
			slog.Duration("ttft", s.firstToken),
			slog.Duration("queued", s.usage.Queued),
			slog.Duration("prefill", s.usage.Prefill),
			slog.Duration("decode", s.usage.Decode),
			slog.String("finish", string(s.finish)),
			slog.Bool("shared", s.shared),
			slog.Bool("cancelled", code == parley.Cancelled))
	}
	if r := c.story.routing; r != nil {
		attributes = append(attributes, slog.String("worker", r.Worker), slog.String("pool", r.Pool),
			slog.String("why", r.Reason), slog.Int("moves", r.Moves))
	}
	if c.story.format != "" {
		attributes = append(attributes, slog.String("format", c.story.format))
	}
	if c.story.tools > 0 {
		attributes = append(attributes, slog.Int("tools", c.story.tools))
	}
	if c.err != nil {
		attributes = append(attributes, slog.String("code", string(code)), slog.String("error", c.err.Error()))
	}
	return attributes
}
