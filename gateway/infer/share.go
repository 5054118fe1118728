package infer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/gateway/relay"

	"github.com/prometheus/client_golang/prometheus"
)

// A Sharing says which answers are given to more than one client. The zero value
// works: requests of one tenant that must have the same answer are computed
// once, and the answer is kept for a while.
//
// Requests must have the same answer if they are equal in all that decides it and
// choose greedily or by the same seed. What one scope asks (see [CacheScope]) is
// never shown to another, not even by being fast, unless a model or a prompt is
// public.
type Sharing struct {
	// Off shares nothing: every request is computed.
	Off bool
	// CacheBytes bounds what complete answers may take; default 64 MiB, less
	// than 0 keeps none. TTL is how long they are kept; default 5 min.
	CacheBytes int64
	TTL        time.Duration
	// AnyTemperature lets equal requests in flight share an answer that would
	// have been different for each. Such answers are never kept.
	AnyTemperature bool
	// PublicModels are the models whose answers all tenants share, and
	// PublicPrompts the texts that make a conversation shared by all that begins
	// with one of them, such as a common system prompt.
	PublicModels, PublicPrompts []string
	// Relay lets equal requests at several gateways share answers that must be the
	// same; nil shares within this one. The caller that opened it closes it, after
	// [Gateway.Close].
	Relay *relay.Redis
}

const (
	shareBytesDefault = 64 << 20
	shareTTLDefault   = 5 * time.Minute
)

// WithDefaults returns s with defaults in place of zeros.
func (s Sharing) WithDefaults() Sharing {
	s.CacheBytes, s.TTL = cmp.Or(s.CacheBytes, shareBytesDefault), cmp.Or(s.TTL, shareTTLDefault)
	return s
}

// shares finds requests whose answer is already there, or on its way.
type shares struct {
	config  Sharing
	now     func() time.Time
	metrics *shareMetrics

	mu      sync.Mutex
	flights map[shareKey]*flight
	kept    *answerCache
}

func newShares(config Sharing, now func() time.Time) *shares {
	return &shares{
		config:  config,
		now:     now,
		metrics: newShareMetrics(),
		flights: map[shareKey]*flight{},
		kept:    newAnswerCache(config.CacheBytes, config.TTL),
	}
}

// openShares makes the shares of a gateway, and registers their metrics.
func openShares(config Sharing, now func() time.Time, r *prometheus.Registry) (*shares, error) {
	s := newShares(config, now)
	return s, errors.Join(r.Register(s.metrics.requests), r.Register(s.metrics.tokens), r.Register(s.metrics.relayed),
		r.Register(shareCollector{s}))
}

// sharing returns what of a job may be shared under this configuration.
func (s *shares) sharing(j *Task) SharePolicy {
	p := j.Share
	p.Repeatable = p.Repeatable || j.Requests[0].Sampling.Temperature == 0
	// Of several prompts that are not repeatable, equal ones are meant to differ.
	p.Private = p.Private || s.config.Off || j.Background || j.Requests[0].Embed ||
		!p.Repeatable && (!s.config.AnyTemperature || len(j.Requests) > 1)
	return p
}

// isPublicModel reports whether all tenants share the answers of a model.
func (s *shares) isPublicModel(id string) bool { return slices.Contains(s.config.PublicModels, id) }

// isPublicPrompt reports whether all tenants share conversations that open so.
func (s *shares) isPublicPrompt(opening string) bool {
	return opening != "" && slices.Contains(s.config.PublicPrompts, opening)
}

// answer shares what w allows, and lets next compute the rest.
func (s *shares) answer(w SharePolicy, loose *parley.Grammar, next source) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			key := keyOf(w, r, loose)
			found := s.find(ctx, w, key, r, next)
			s.metrics.count(found.how)
			counted := func(came *Step, err error) bool {
				if came.Shared {
					s.metrics.tokens.Add(float64(came.Delta.Count()))
				}
				return yield(came, err)
			}
			if found.flight == nil {
				replay(found.kept, counted)
				return
			}
			defer s.leave(ctx, key, found.flight)
			found.flight.follow(ctx, found.how == "joined", counted)
		}
	}
}

// A lookup is where the answer to a request comes from: it is kept, or a flight
// that the request has joined or leads.
type lookup struct {
	how    string
	kept   []parley.Delta
	flight *flight
}

// find returns where the answer comes from. It is one decision, so that of equal
// requests that come together one leads.
func (s *shares) find(ctx context.Context, w SharePolicy, key shareKey, r *parley.Request, next source) lookup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Repeatable && !w.Fresh {
		if kept := s.kept.get(key, s.now()); kept != nil {
			return lookup{how: "hit", kept: kept}
		}
	}
	if f := s.flights[key]; f != nil && f.enter(r.Class) {
		return lookup{how: "joined", flight: f}
	}
	return lookup{how: "led", flight: s.lead(ctx, w, key, r, next)}
}

// lead starts an answer that others can join, in the place of one that is no
// longer joined. The lock is held.
func (s *shares) lead(ctx context.Context, w SharePolicy, key shareKey, r *parley.Request, next source) *flight {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	f := &flight{
		class:   r.Class,
		prompt:  len(r.Prompt),
		members: 1,
		cancel:  cancel,
		moved:   make(chan struct{}, 1),
		ended:   make(chan struct{}),
	}
	s.flights[key] = f
	go func() {
		defer close(f.ended)
		defer cancel(nil)
		f.fly(ctx, r, s.across(w, key, next))
		s.land(w, key, f)
	}()
	return f
}

// land takes a flight that has ended out, and keeps its answer if it may.
func (s *shares) land(w SharePolicy, key shareKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[key] == f {
		delete(s.flights, key)
	}
	if deltas, whole := f.whole(); whole && w.Repeatable {
		s.kept.put(key, compact(deltas), s.now())
	}
}

// leave ends a membership. The last one who leaves an answer that is not
// complete cancels it, and waits until the worker has let go.
func (s *shares) leave(ctx context.Context, key shareKey, f *flight) {
	s.mu.Lock()
	last := f.exit()
	if last && s.flights[key] == f {
		delete(s.flights, key)
	}
	s.mu.Unlock()
	if last {
		f.cancel(context.Cause(ctx))
		<-f.ended
	}
}

// replay gives a complete answer out again.
func replay(deltas []parley.Delta, yield func(*Step, error) bool) {
	for _, d := range deltas {
		if !yield(&Step{Delta: notComputed(d), Shared: true}, nil) {
			return
		}
	}
}

// A shareCollector reads what is kept and in flight when metrics are scraped.
type shareCollector struct{ shares *shares }

var (
	shareBytes   = prometheus.NewDesc("parley_share_kept_bytes", "Memory of the cached complete answers.", nil, nil)
	shareKept    = prometheus.NewDesc("parley_share_kept_answers", "Cached complete answers.", nil, nil)
	shareFlights = prometheus.NewDesc("parley_share_flights", "Answers in flight that others can join.", nil, nil)
)

// Describe names what is collected.
func (s shareCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{shareBytes, shareKept, shareFlights} {
		out <- d
	}
}

// Collect reads the numbers.
func (s shareCollector) Collect(out chan<- prometheus.Metric) {
	s.shares.mu.Lock()
	bytes, kept, flights := s.shares.kept.bytes, len(s.shares.kept.entries), len(s.shares.flights)
	s.shares.mu.Unlock()
	out <- prometheus.MustNewConstMetric(shareBytes, prometheus.GaugeValue, float64(bytes))
	out <- prometheus.MustNewConstMetric(shareKept, prometheus.GaugeValue, float64(kept))
	out <- prometheus.MustNewConstMetric(shareFlights, prometheus.GaugeValue, float64(flights))
}
