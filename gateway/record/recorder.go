package record

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/openai"
	"parley/gateway/otlp"

	"github.com/prometheus/client_golang/prometheus"
)

// A Config says what a recorder writes to.
type Config struct {
	// Log receives one line per finished request.
	Log *slog.Logger
	Now func() time.Time
	// Registry holds the metrics.
	Registry *prometheus.Registry
	// Objectives are what requests are promised; the last one is for all.
	Objectives parley.Objectives
	// Traces sends spans to a collector; nil sends none.
	Traces *otlp.Exporter
	// Fleet is what knows the workers of other processes; nil if there are none.
	Fleet *admin.Fleet
	// Trend keeps what charts show over restarts; nil keeps it in memory.
	Trend *TrendStore
}

// A Recorder makes the records of requests, and reads them when the requests have ended.
type Recorder struct {
	*Metrics
	*Operations
	config Config
}

// New returns a recorder, with its metrics registered.
func New(config Config) (*Recorder, error) {
	m, err := newMetrics(config.Registry, config.Objectives)
	return &Recorder{Metrics: m, Operations: newOperations(&config), config: config}, err
}

// Begin begins the record of a request that came in now, with the header traceparent,
// which may be empty.
func (r *Recorder) Begin(traceparent string) *Request {
	q := &Request{metrics: r.Metrics, now: r.config.Now, trace: beginTrace(traceparent, r.config.Traces != nil)}
	q.Started, q.Route = q.now(), "other"
	return q
}

// An End is what is known of a request only when it has ended.
type End struct {
	// Status is the HTTP status that was sent; 0 means 200.
	Status int
	// Stream is set if the answer was sent as events.
	Stream bool
	// Remote is the address of the client, empty if it is not recorded.
	Remote string
	// Retried is set if the client says that it has sent the request before.
	Retried bool
}

// Finish counts a request that has ended, and writes its log line.
func (r *Recorder) Finish(ctx context.Context, q *Request, end End) {
	end.Status = cmp.Or(end.Status, 200)
	code := parley.Code("")
	if q.err != nil {
		code = openai.CodeOf(q.err)
	}
	if code == parley.Cancelled {
		end.Status = openai.StatusClosed
	}
	elapsed := q.now().Sub(q.Started)
	q.observeStages(elapsed)
	r.requests.WithLabelValues(q.Route, strconv.Itoa(end.Status)).Inc()
	r.seconds.WithLabelValues(q.Route).Observe(elapsed.Seconds())
	if q.inference {
		r.inFlight.Dec()
		r.countInference(q, code, end.Retried)
		shown := q.shown(&end, code, elapsed)
		r.endTrace(q, shown, elapsed)
		r.remember(shown)
	}
	if level := q.level(end.Status); r.config.Log.Enabled(ctx, level) {
		r.config.Log.LogAttrs(ctx, level, "request", q.attributes(&end, code, elapsed)...)
	}
}

func (r *Recorder) countInference(q *Request, code parley.Code, retried bool) {
	r.outcomes.WithLabelValues(admin.OutcomeOf(code)).Inc()
	switch {
	case code == parley.Cancelled:
		r.finishes.WithLabelValues("cancelled").Inc()
	case q.err != nil:
		r.finishes.WithLabelValues("error").Inc()
	}
	if retried {
		r.retries.Inc()
	}
}

// endTrace sends what became of a request, with a span for each stage.
func (r *Recorder) endTrace(q *Request, l *admin.RequestRecord, elapsed time.Duration) {
	t := &q.trace
	if t.here.ID == [16]byte{} {
		return
	}
	l.TraceID = hex.EncodeToString(t.here.ID[:])
	if !t.sends || !t.here.Sampled {
		return
	}
	attempts, _ := q.attempts.Attempts()
	r.config.Traces.Export(spansOf(t, l.Tell(), attempts, elapsed))
}

// level keeps probes out of the log and makes faults of ours visible.
func (q *Request) level(status int) slog.Level {
	switch {
	case q.err != nil && openai.CodeOf(q.err) == parley.Internal:
		return slog.LevelError
	case status >= 500:
		return slog.LevelWarn
	case q.inference || q.err != nil:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (q *Request) attributes(end *End, code parley.Code, elapsed time.Duration) []slog.Attr {
	attributes := []slog.Attr{
		slog.String("id", q.ID),
		slog.String("route", q.Route),
		slog.Int("status", end.Status),
		slog.Duration("elapsed", elapsed),
	}
	for _, a := range []struct{ name, value string }{
		{"client_id", q.ClientID},
		{"organization", q.Who.Organization},
		{"user", q.Who.User},
		{"key", q.Who.Key},
		{"remote", end.Remote},
	} {
		if a.value != "" {
			attributes = append(attributes, slog.String(a.name, a.value))
		}
	}
	if a := &q.answer; q.model != "" {
		attributes = append(attributes,
			slog.String("model", q.model),
			slog.Bool("stream", end.Stream),
			slog.Int("prompt_tokens", a.promptTokens),
			slog.Int("output_tokens", a.outputTokens),
			slog.Int("cached_tokens", q.CachedTokens()), slog.String("cache_miss", a.usage.Miss),
			slog.Duration("ttft", a.firstToken),
			slog.Duration("queued", a.usage.Queued),
			slog.Duration("prefill", a.usage.Prefill),
			slog.Duration("decode", a.usage.Decode),
			slog.String("finish", string(a.finish)),
			slog.Bool("shared", a.shared.Load()),
			slog.Bool("cancelled", code == parley.Cancelled))
	}
	if t := &q.trace.here; t.ID != [16]byte{} {
		attributes = append(attributes, slog.String(otlp.TraceAttribute, hex.EncodeToString(t.ID[:])))
		if q.trace.sends && t.Sampled { // the collector has the span
			attributes = append(attributes, slog.String(otlp.SpanAttribute, hex.EncodeToString(t.Span[:])))
		}
	}
	if to := q.answer.routing; to != nil {
		attributes = append(attributes, slog.String("worker", to.Worker), slog.String("pool", to.Pool),
			slog.String("why", to.Reason), slog.Int("moves", to.Moves))
	}
	for _, f := range q.answer.fallbacks {
		attributes = append(attributes, slog.String("fallback", f.From+" -> "+f.To+": "+f.Cause))
	}
	if q.answer.format != "" {
		attributes = append(attributes, slog.String("format", q.answer.format))
	}
	if q.answer.tools > 0 {
		attributes = append(attributes, slog.Int("tools", q.answer.tools))
	}
	if q.err != nil {
		attributes = append(attributes, slog.String("code", string(code)), slog.String("error", q.err.Error()))
	}
	return attributes
}

var _ = errors.Join
