package gateway

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/relay"
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
	// with one of them, such as a system prompt that everybody has.
	PublicModels, PublicPrompts []string
	// Relay lets equal requests at several gateways share answers that must be the
	// same; nil shares within this one. Whoever opened it closes it, after
	// [Gateway.Close].
	Relay *relay.Redis
}

const (
	shareBytesDefault = 64 << 20
	shareTTLDefault   = 5 * time.Minute
)

func (s Sharing) withDefaults() Sharing {
	setDefault(&s.CacheBytes, shareBytesDefault)
	setDefault(&s.TTL, shareTTLDefault)
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
	return &shares{config: config, now: now, metrics: newShareMetrics(), flights: map[shareKey]*flight{}, kept: newAnswerCache(config.CacheBytes, config.TTL)}
}

// openShares makes the shares of a gateway, and shows their numbers.
func openShares(config *Config) (*shares, error) {
	s := newShares(config.Share, config.Now)
	r := config.Registry
	return s, errors.Join(r.Register(s.metrics.requests), r.Register(s.metrics.tokens), r.Register(s.metrics.relayed), r.Register(shareCollector{s}))
}

// A wish is what a call lets be shared.
type wish struct {
	// scope is who may see the answer; empty is everybody.
	scope string
	// fresh answers are not taken from the cache, private ones not shared at all.
	fresh, private bool
	// repeatable requests have the same answer every time.
	repeatable bool
	// vocabulary tells models of one name apart that gateways may have.
	vocabulary int
}

// wishOf says what of a call's jobs may be shared.
func (s *shares) wishOf(c *call, m *model, jobs []*parley.Request) wish {
	w := wish{scope: "tenant " + c.cacheScope(), repeatable: c.seeded || jobs[0].Sampling.Temperature == 0, vocabulary: m.vocabTokens}
	if s.isPublicModel(m) || c.public {
		w.scope = ""
	}
	for _, directive := range c.request.Header.Values("Cache-Control") {
		w.private = w.private || strings.Contains(directive, "no-store")
		w.fresh = w.fresh || strings.Contains(directive, "no-cache")
	}
	// Of several prompts that are not repeatable, equal ones are meant to differ.
	w.private = w.private || s.config.Off || c.background || jobs[0].Embed || !w.repeatable && (!s.config.AnyTemperature || len(jobs) > 1)
	return w
}

// answer shares what w allows, and lets next compute the rest.
func (s *shares) answer(w wish, loose *parley.Grammar, next source) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[step, error] {
		return func(yield func(step, error) bool) {
			key := keyOf(w, r, loose)
			found := s.find(ctx, w, key, r, next)
			s.metrics.count(found.how)
			if found.flight == nil {
				replay(found.kept, yield)
				return
			}
			defer s.leave(ctx, key, found.flight)
			found.flight.follow(ctx, found.how == "joined", yield)
		}
	}
}

// A found is where the answer to a request comes from: it is kept, or a flight
// that the request has joined or leads.
type found struct {
	how    string
	kept   []parley.Delta
	flight *flight
}

// find returns where the answer comes from. It is one decision, so that of equal
// requests that come together one leads.
func (s *shares) find(ctx context.Context, w wish, key shareKey, r *parley.Request, next source) found {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.repeatable && !w.fresh {
		if kept := s.kept.get(key, s.now()); kept != nil {
			return found{how: "hit", kept: kept}
		}
	}
	if f := s.flights[key]; f != nil && f.enter(r.Class) {
		return found{how: "joined", flight: f}
	}
	return found{how: "led", flight: s.lead(ctx, w, key, r, next)}
}

// lead starts an answer that others can join, in the place of one that is no
// longer joined. The lock is held.
func (s *shares) lead(ctx context.Context, w wish, key shareKey, r *parley.Request, next source) *flight {
	ctx, cancel := context.WithCancelCause(parley.WithUptake(context.WithoutCancel(ctx), nil))
	f := &flight{class: r.Class, members: 1, cancel: cancel, moved: make(chan struct{}, 1), ended: make(chan struct{})}
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
func (s *shares) land(w wish, key shareKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[key] == f {
		delete(s.flights, key)
	}
	if deltas, whole := f.whole(); whole && w.repeatable {
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
func replay(deltas []parley.Delta, yield func(step, error) bool) {
	for _, d := range deltas {
		if !yield(step{delta: notComputed(d), shared: true}, nil) {
			return
		}
	}
}

// notComputed says in a delta's usage that nothing was computed for it.
func notComputed(d parley.Delta) parley.Delta {
	if d.Usage != nil {
		d.Usage = &parley.Usage{PromptTokens: d.Usage.PromptTokens, CachedTokens: d.Usage.PromptTokens, Miss: "none",
			OutputTokens: d.Usage.OutputTokens, DroppedTokens: d.Usage.DroppedTokens}
	}
	return d
}
