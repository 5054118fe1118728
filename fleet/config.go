package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/queue"
	"parley/route"
)

// A Config configures a fleet. The zero value of every field works, except Pools and
// Models.
type Config struct {
	// Models are the models that the fleet serves, whatever workers are up. Pools select
	// requests, in the order in which they are tried.
	Models []parley.Model
	Pools  []Pool
	// Route configures the router.
	Route route.Config
	// Breaker says when a worker that answers with errors gets no more requests; default
	// 2 failures in a row, fewer than Tries.
	Breaker queue.BreakerConfig
	// ProbeEvery is how often workers are probed; default 1 s. A worker that does not
	// respond within ProbeWait, default 2 s, ProbeFailures times in a row, default 2, is
	// lost: its answers fail over.
	ProbeEvery, ProbeWait time.Duration
	ProbeFailures         int
	// SlowStart is how long it takes until a worker that joined gets its full share;
	// default 10 s, negative means at once.
	SlowStart time.Duration
	// StallMax is how long a worker may send nothing between two tokens before the answer
	// fails over; default 20 s, negative means no limit.
	StallMax time.Duration
	// Tries is how many workers may answer a request with an error; default 3.
	// Losses is how many workers may be lost with it in a row, without a token in between;
	// default 24: it may be a poison request. A worker that was lost while it had no other
	// request counts three times. If workers are also lost without this request, the limit
	// is three times as high.
	Tries, Losses int
	// ReplayShare is how many tokens may be recomputed for each useful one; default 1.
	// ReplayBurst is how many may be recomputed at once, default 262,144.
	ReplayShare float64
	ReplayBurst int
	// HedgeAfter sends a request to a second worker if its first token has not arrived by
	// then; the faster one answers. 0 disables this.
	HedgeAfter time.Duration
	// NoTransfers has workers compute context that others hold, instead of fetching it.
	NoTransfers bool
	// WarmMax is how long a worker that joins or wakes fetches recently used context, before
	// it gets requests; default 5 s, negative means not at all.
	WarmMax time.Duration
	// WaitMax is how long a request waits while no worker can take it; default 30 s.
	WaitMax time.Duration
	// EmptyWait is the same for a request that has not begun while no worker of its pools
	// is up; default 5 s.
	EmptyWait time.Duration
	// WakeMax is how long a worker may take to wake; default 5 minutes. Requests
	// that wait for it wait as long.
	WakeMax time.Duration
	// Now is the clock; nil means time.Now. Log records the events of workers; nil discards
	// them. Registry receives the metrics; nil discards them.
	Now      func() time.Time
	Log      *slog.Logger
	Registry prometheus.Registerer
}

// A Pool selects the requests that its workers serve. Empty fields select all; but
// conversations and completions never share workers unless Purpose is [AnyPurpose].
type Pool struct {
	// Name identifies the pool to its members.
	Name string
	// Models, Tenants and Classes are the served ones.
	Models  []string
	Tenants []string
	Classes []parley.Class
	// Purpose is what its answers are for; default chat.
	Purpose parley.Purpose
}

// AnyPurpose is the purpose of a pool whose workers are shared.
const AnyPurpose parley.Purpose = "any"

// DefaultPool is the pool of a fleet without pools: it serves all requests.
func DefaultPool() Pool { return Pool{Name: "default", Purpose: AnyPurpose} }

// admits reports whether a request may be served here.
func (p *Pool) admits(r *parley.Request) bool {
	purpose := cmp.Or(r.Purpose, parley.ForChat)
	return allows(p.Models, r.Model) && allows(p.Tenants, r.Tenant) && allows(p.Classes, r.Class) &&
		(p.Purpose == AnyPurpose || purpose == cmp.Or(p.Purpose, parley.ForChat))
}

func allows[T comparable](list []T, x T) bool { return len(list) == 0 || slices.Contains(list, x) }

// Validate reports everything that is wrong with c, joined into one error.
func (c *Config) Validate() error {
	var problems []error
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Errorf("fleet: "+format, args...)) }
	if len(c.Models) == 0 || len(c.Pools) == 0 {
		wrong("there are %d models and %d pools: at least one of each is needed", len(c.Models), len(c.Pools))
	}
	seen := map[string]bool{}
	for _, p := range c.Pools {
		if p.Name == "" || seen[p.Name] {
			wrong("the pool name %q is empty or used twice", p.Name)
		}
		seen[p.Name] = true
		if !slices.Contains([]parley.Purpose{"", parley.ForChat, parley.ForComplete, AnyPurpose}, p.Purpose) {
			wrong("the purpose of pool %s is %q: use chat, complete or any", p.Name, p.Purpose)
		}
		for _, m := range p.Models {
			if !slices.ContainsFunc(c.Models, func(known parley.Model) bool { return known.ID == m }) {
				wrong("pool %s serves %q, which is not a model of this server", p.Name, m)
			}
		}
	}
	if c.ProbeEvery < 0 || c.ProbeWait < 0 || c.WaitMax < 0 || c.EmptyWait < 0 || c.WakeMax < 0 || c.HedgeAfter < 0 ||
		c.ProbeFailures < 0 || c.Tries < 0 || c.Losses < 0 || c.ReplayShare < 0 || c.ReplayBurst < 0 {
		wrong("a time, count or share is negative")
	}
	return errors.Join(append(problems, c.Breaker.Validate())...)
}

func (c Config) withDefaults() Config {
	c.Breaker.Failures = cmp.Or(c.Breaker.Failures, 2)
	c.ProbeEvery = cmp.Or(c.ProbeEvery, time.Second)
	c.ProbeWait = cmp.Or(c.ProbeWait, 2*time.Second)
	c.ProbeFailures = cmp.Or(c.ProbeFailures, 2)
	c.SlowStart = cmp.Or(c.SlowStart, 10*time.Second)
	c.StallMax = cmp.Or(c.StallMax, 20*time.Second)
	c.Tries = cmp.Or(c.Tries, 3)
	c.Losses = cmp.Or(c.Losses, 24)
	c.ReplayShare = cmp.Or(c.ReplayShare, 1)
	c.ReplayBurst = cmp.Or(c.ReplayBurst, 1<<18)
	c.WaitMax = cmp.Or(c.WaitMax, 30*time.Second)
	c.EmptyWait = cmp.Or(c.EmptyWait, 5*time.Second)
	c.WakeMax = cmp.Or(c.WakeMax, 5*time.Minute)
	c.WarmMax = cmp.Or(c.WarmMax, 5*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
