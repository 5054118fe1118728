package book

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/testkit"
	"parley/limit"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A clock is set by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 30, 23, 50, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func memory(t testing.TB, c *clock, spent limit.Micros) Book {
	m, err := OpenMemory(context.Background(), &Memory{Now: c.Now, Spent: said(spent)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func said(spent limit.Micros) func(context.Context, string, time.Time) (limit.Micros, error) {
	return func(context.Context, string, time.Time) (limit.Micros, error) { return spent, nil }
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func openRedis(t testing.TB, config RedisConfig) *Redis {
	t.Helper()
	if config.Log == nil {
		config.Log = quiet()
	}
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second // the machine may be busy with much else
	}
	r, err := OpenRedis(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// Conform is what every book must do, whatever it is made of. Open returns an
// empty one in which every account has spent so much this month.
func Conform(t *testing.T, open func(t *testing.T, c *clock, spent limit.Micros) Book) {
	for _, part := range []struct {
		name string
		test func(*testing.T, func(c *clock, spent limit.Micros) Book)
	}{
		{"rates refill", conformRates}, {"a smaller limit", conformSmaller}, {"a clock set back", conformClock},
		{"settling gives back", conformSettle}, {"at a time", conformConcurrency}, {"light requests", conformLight},
		{"budget", conformBudget}, {"alert", conformAlert}, {"all accounts or none", conformAll},
		{"parallel", conformParallel},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.test(t, func(c *clock, spent limit.Micros) Book { return open(t, c, spent) })
		})
	}
}

func TestMemory(t *testing.T) {
	Conform(t, func(t *testing.T, c *clock, spent limit.Micros) Book { return memory(t, c, spent) })
}

func TestRedis(t *testing.T) {
	server := testkit.StartRedis(t)
	n := 0
	Conform(t, func(t *testing.T, c *clock, spent limit.Micros) Book {
		n++
		return openRedis(t, RedisConfig{URL: server.URL, Prefix: fmt.Sprint("test", n), Now: c.Now, Spent: said(spent)})
	})
}

func account(name string, l limit.Limits) limit.Account { return limit.Account{Name: name, Limits: l} }

func hold(id int, use limit.Use, accounts ...limit.Account) *limit.Hold {
	return &limit.Hold{ID: fmt.Sprint("h", id), Group: "acme", Accounts: accounts, Use: use}
}

func reserve(t testing.TB, b Book, h *limit.Hold) limit.Verdict {
	t.Helper()
	v, err := b.Reserve(context.Background(), h)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func conformRates(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	a := account("a", limit.Limits{RequestsPerMinute: 7})
	for i := range 7 {
		if v := reserve(t, b, hold(i, limit.Use{Requests: 1}, a)); v.Refused != "" || v.Requests.Left != int64(6-i) ||
			v.Requests.Limit != 7 {
			t.Fatalf("request %d: %+v", i, v)
		}
	}
	v := reserve(t, b, hold(7, limit.Use{Requests: 1}, a))
	if v.Refused != limit.RequestRate || v.Wait != 8571429*time.Microsecond || v.Requests.Reset != time.Minute {
		t.Fatalf("the eighth: %+v", v)
	}
	c.pass(v.Wait - time.Microsecond)
	if v := reserve(t, b, hold(7, limit.Use{Requests: 1}, a)); v.Refused == "" {
		t.Fatal("it went before its time")
	}
	c.pass(time.Microsecond)
	if v := reserve(t, b, hold(7, limit.Use{Requests: 1}, a)); v.Refused != "" {
		t.Fatalf("after the time it was told: %+v", v)
	}
}

func conformSettle(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	a := account("a", limit.Limits{InputTokensPerMinute: 1000, OutputTokensPerMinute: 600})
	h := hold(1, limit.Use{Requests: 1, Input: 100, Output: 600}, a)
	if v := reserve(t, b, h); v.Refused != "" || v.Tokens != (limit.Level{Limit: 600, Left: 0, Reset: time.Minute}) {
		t.Fatalf("%+v", v)
	}
	next := hold(2, limit.Use{Requests: 1, Input: 100, Output: 500}, a)
	if v := reserve(t, b, next); v.Refused != limit.OutputRate || v.Wait != 50*time.Second {
		t.Fatalf("while all is reserved: %+v", v)
	}
	b.Settle(h, limit.Use{Requests: 1, Input: 100, Output: 40})
	if v := reserve(t, b, next); v.Refused != "" || v.Tokens.Left != 60 {
		t.Fatalf("after 560 came back: %+v", v)
	}
	if v := reserve(t, b, hold(3, limit.Use{Requests: 1, Input: 1, Output: 601}, a)); v.Wait >= 0 || v.Limit != 600 ||
		v.Terms != 601 {
		t.Fatalf("more than there can be: %+v", v)
	}
	c.pass(10 * time.Minute)
	b.Settle(next, limit.Use{Requests: 1})
	if v := reserve(t, b, hold(4, limit.Use{Requests: 1, Input: 1000}, a)); v.Refused != "" ||
		v.Tokens != (limit.Level{Limit: 1000, Left: 0, Reset: time.Minute}) {
		t.Fatalf("a late refund filled a bucket beyond its brim: %+v", v)
	}
}

func conformConcurrency(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	a := account("a", limit.Limits{ConcurrentRequests: 2})
	first := hold(1, limit.Use{Requests: 1, Concurrent: 1}, a)
	reserve(t, b, first)
	reserve(t, b, hold(2, limit.Use{Requests: 1, Concurrent: 1}, a))
	v := reserve(t, b, hold(3, limit.Use{Requests: 1, Concurrent: 1}, a))
	if v.Refused != limit.Concurrency || v.Limit != 2 ||
		v.Wait <= 0 {
		t.Fatalf("the third at a time: %+v", v)
	}
	b.Settle(first, limit.Use{Requests: 1, Concurrent: 1})
	if v := reserve(t, b, hold(3, limit.Use{Requests: 1, Concurrent: 1}, a)); v.Refused != "" {
		t.Fatalf("after one ended: %+v", v)
	}
}

// conformLight has light requests beside others: each has a rate of its own, and
// none that takes nothing of a limit is refused by it.
func conformLight(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 2000)
	a := account("a", limit.Limits{RequestsPerMinute: 1, LightRequestsPerMinute: 3, ConcurrentRequests: 1,
		InputTokensPerMinute: 10, MonthlyBudget: 1000})
	running := hold(0, limit.Use{Requests: 1, Concurrent: 1}, a)
	if v := reserve(t, b, running); v.Refused != "" || v.Requests.Limit != 1 {
		t.Fatalf("a request without cost, with the budget spent: %+v", v)
	}
	for i := range 3 {
		h := hold(1+i, limit.Use{Light: 1}, a)
		if v := reserve(t, b, h); v.Refused != "" ||
			v.Requests != (limit.Level{Limit: 3, Left: int64(2 - i), Reset: time.Duration(i+1) * 20 * time.Second}) {
			t.Fatalf("light request %d: %+v", i, v)
		}
		b.Settle(h, limit.Use{}) // gives nothing back
	}
	if v := reserve(t, b, hold(5, limit.Use{Light: 1}, a)); v.Refused != limit.LightRate || v.Wait != 20*time.Second {
		t.Fatalf("the fourth light request: %+v", v)
	}
	if v := reserve(t, b, hold(6, limit.Use{Input: 10}, a)); v.Refused != "" {
		t.Fatalf("tokens of the request that runs: %+v", v)
	}
	b.Settle(running, running.Use)
	if v := reserve(t, b, hold(7, limit.Use{Requests: 1, Concurrent: 1}, a)); v.Refused != limit.RequestRate {
		t.Fatalf("the second request in a minute, which is over or not: %+v", v)
	}
}

func conformBudget(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock() // ten minutes before December
	b := open(c, 700)
	a := account("a", limit.Limits{MonthlyBudget: 1000})
	h := hold(1, limit.Use{Cost: 200}, a)
	if v := reserve(t, b, h); v.Refused != "" {
		t.Fatalf("700 spent, 200 more: %+v", v)
	}
	v := reserve(t, b, hold(2, limit.Use{Cost: 101}, a))
	if v.Refused != limit.Budget || v.Wait >= 0 || v.Left != 100 {
		t.Fatalf("101 of the last 100: %+v", v)
	}
	b.Settle(h, limit.Use{Cost: 50})
	if v := reserve(t, b, hold(3, limit.Use{Cost: 250}, a)); v.Refused != "" {
		t.Fatalf("750 spent, 250 more: %+v", v)
	}
	if v := reserve(t, b, hold(4, limit.Use{Cost: 1}, a)); v.Refused != limit.Budget {
		t.Fatalf("all is spent: %+v", v)
	}
	c.pass(time.Hour)
	if v := reserve(t, b, hold(5, limit.Use{Cost: 750}, a)); v.Refused != "" {
		t.Fatalf("a new month: %+v", v)
	}
}

func conformAll(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	key, tenant := account("k", limit.Limits{RequestsPerMinute: 10}), account("o", limit.Limits{RequestsPerMinute: 1})
	if v := reserve(t, b, hold(1, limit.Use{Requests: 1}, key, tenant)); v.Refused != "" || v.Requests.Limit != 1 {
		t.Fatalf("%+v", v)
	}
	v := reserve(t, b, hold(2, limit.Use{Requests: 1}, key, tenant))
	if v.Refused != limit.RequestRate || v.Limit != 1 ||
		v.Account != 1 || v.Period != time.Minute {
		t.Fatalf("%+v", v)
	}
	if v := reserve(t, b, hold(3, limit.Use{Requests: 1}, key)); v.Requests.Left != 8 {
		t.Fatalf("the refused one took something of the key: %+v", v)
	}
}

// conformParallel has 50 clients take as much as they can get. In no time, not
// one token too much.
func conformParallel(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	a := account("a", limit.Limits{OutputTokensPerMinute: 10_000, MonthlyBudget: 100_000})
	var got, spent atomic.Int64
	var clients sync.WaitGroup
	for i := range 50 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for n := range 20 {
				h := hold(i*1000+n, limit.Use{Requests: 1, Output: 300, Cost: 3000}, a)
				v, err := b.Reserve(context.Background(), h)
				if err != nil {
					t.Error(err)
				}
				if v.Refused != "" {
					continue
				}
				used := limit.Use{Requests: 1, Output: random.Int64N(300), Cost: limit.Micros(random.Int64N(3000))}
				got.Add(used.Output)
				spent.Add(int64(used.Cost))
				b.Settle(h, used)
			}
		})
	}
	clients.Wait()
	if got.Load() > 10_000 || spent.Load() > 100_000 {
		t.Errorf("%d tokens of 10000 and %d of 100000", got.Load(), spent.Load())
	}
	if got.Load() < 5000 && spent.Load() < 50_000 {
		t.Errorf("only %d tokens of 10000 and %d of 100000: much was refused that could go", got.Load(), spent.Load())
	}
	rest := limit.Use{Requests: 1, Output: 10_000 - got.Load(), Cost: limit.Micros(100_000 - spent.Load())}
	v := reserve(t, b, hold(1, rest, a))
	if v.Refused != "" {
		t.Errorf("what was not used is not there: %+v", v)
	}
}

// conformSmaller makes a limit smaller that is all used: an account that is left
// alone pays its debt meanwhile, and one whose limit is lifted has none.
func conformSmaller(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	limited := func(perMinute int64) limit.Account {
		return account("a", limit.Limits{RequestsPerMinute: perMinute})
	}
	first := hold(1, limit.Use{Requests: 100}, limited(100))
	reserve(t, b, first)
	b.Settle(first, first.Use)
	if v := reserve(t, b, hold(2, limit.Use{Requests: 1}, limited(10))); v.Refused != limit.RequestRate ||
		v.Wait != 9*time.Minute+6*time.Second {
		t.Fatalf("100 were used, of which 9 may stay: %+v", v)
	}
	c.pass(9*time.Minute + 6*time.Second)
	if v := reserve(t, b, hold(3, limit.Use{Requests: 1}, limited(10))); v.Refused != "" {
		t.Fatalf("it has waited for as long as it was told: %+v", v)
	}
	reserve(t, b, hold(4, limit.Use{Requests: 1}, account("a", limit.Limits{ConcurrentRequests: 100})))
	if v := reserve(t, b, hold(5, limit.Use{Requests: 10}, limited(10))); v.Refused != "" {
		t.Fatalf("what was not limited is owed: %+v", v)
	}
}

// conformClock sets the clock back: by little, which fills nothing twice, and by
// hours, which must not keep limit.Buckets from filling for as long.
func conformClock(t *testing.T, open func(*clock, limit.Micros) Book) {
	c := newClock()
	b := open(c, 0)
	a := account("a", limit.Limits{RequestsPerMinute: 60})
	reserve(t, b, hold(1, limit.Use{Requests: 60}, a))
	c.pass(-10 * time.Second)
	reserve(t, b, hold(2, limit.Use{Requests: 1}, a))
	c.pass(10 * time.Second)
	if v := reserve(t, b, hold(3, limit.Use{Requests: 1}, a)); v.Refused == "" {
		t.Fatal("a clock that went back and on again filled a bucket")
	}
	c.pass(-3 * time.Hour)
	if v := reserve(t, b, hold(4, limit.Use{Requests: 1}, a)); v.Refused == "" {
		t.Fatal("a clock that went back filled a bucket")
	}
	c.pass(time.Second)
	if v := reserve(t, b, hold(5, limit.Use{Requests: 1}, a)); v.Refused != "" {
		t.Fatalf("no bucket fills since the clock was set right: %+v", v)
	}
}

// TestRedisComputesAsMemory runs random steps through both: the script is the
// core, number by number.
func TestRedisComputesAsMemory(t *testing.T) {
	server := testkit.StartRedis(t)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		c := newClock()
		plain := memory(t, c, 5)
		shared := openRedis(t, RedisConfig{URL: server.URL, Prefix: fmt.Sprint("same", seed), Now: c.Now,
			Spent: said(5), Lease: 10000 * time.Hour})
		accounts := randomAccounts(random)
		var open []*limit.Hold
		for i := range 150 {
			c.pass(time.Duration(random.Int64N(int64(10 * time.Second))).Truncate(time.Microsecond))
			if random.IntN(30) == 0 { // somebody changes the limits, or sets the clock
				accounts = randomAccounts(random)
				c.pass(time.Duration(random.Int64N(int64(4*time.Minute))).Truncate(time.Microsecond) - 2*time.Minute)
			}
			if len(open) > 0 && random.IntN(2) == 0 {
				n := random.IntN(len(open))
				h := open[n]
				open = append(open[:n], open[n+1:]...)
				used := h.Use
				used.Input, used.Output = random.Int64N(h.Use.Input+1), random.Int64N(h.Use.Output+1)
				used.Cost = limit.Micros(random.Int64N(int64(h.Use.Cost) + 1))
				plain.Settle(h, used)
				shared.Settle(h, used)
				continue
			}
			h := hold(i, randomUse(random), accounts[:1+random.IntN(2)]...)
			want, got := reserve(t, plain, h), reserve(t, shared, h)
			if got != want {
				t.Fatalf("seed %d, step %d, %+v:\nredis  %+v\nmemory %+v", seed, i, h, got, want)
			}
			if want.Refused == "" {
				open = append(open, h)
			}
		}
	}
}

// randomUse is what a request takes when it begins, what a generation takes, or both.
func randomUse(random *rand.Rand) limit.Use {
	counts := []limit.Use{{Requests: 1, Concurrent: 1}, {Light: 1}, {}, {Requests: 1, Concurrent: 1}}
	n := random.IntN(len(counts))
	u := counts[n]
	if n >= 2 {
		u.Input, u.Output, u.Cost = random.Int64N(100), random.Int64N(200), limit.Micros(random.Int64N(1000))
	}
	return u
}

func randomAccounts(random *rand.Rand) []limit.Account {
	maybe := func(n int64) int64 { return random.Int64N(2) * (1 + random.Int64N(n)) }
	some := func(name string) limit.Account {
		return account(name, limit.Limits{
			RequestsPerSecond:      maybe(3),
			RequestsPerMinute:      maybe(50),
			LightRequestsPerMinute: maybe(20),
			InputTokensPerMinute:   maybe(5000),
			OutputTokensPerMinute:  maybe(5000),
			ConcurrentRequests:     maybe(6),
			MonthlyBudget:          limit.Micros(maybe(40_000)),
			BudgetAlert:            limit.Share(maybe(1000)),
		})
	}
	return []limit.Account{some("a"), some("b")}
}

// shown returns a metric as it is shown, over all labels.
func shown(t testing.TB, r *Redis, name string) (sum float64) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

func TestMemoryIsKept(t *testing.T) {
	c := newClock()
	kept := map[string]limit.State{}
	open := func() *Memory {
		m, err := OpenMemory(context.Background(), &Memory{Now: c.Now,
			Load: func(context.Context) (map[string]limit.State, error) { return kept, nil },
			Save: func(_ context.Context, changed map[string]limit.State) error {
				maps.Copy(kept, changed)
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a := account("a", limit.Limits{RequestsPerMinute: 2, ConcurrentRequests: 2})
	m := open()
	reserve(t, m, hold(1, limit.Use{Requests: 1, Concurrent: 1}, a))
	reserve(t, m, hold(2, limit.Use{Requests: 1, Concurrent: 1}, a))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m = open()
	if v := reserve(t, m, hold(3, limit.Use{Requests: 1, Concurrent: 1}, a)); v.Refused != limit.RequestRate {
		t.Errorf("a restart filled the bucket: %+v", v)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	c.pass(30 * time.Second)
	m = open()
	if v := reserve(t, m, hold(4, limit.Use{Requests: 1, Concurrent: 1}, a)); v.Refused != "" {
		t.Errorf("what ran in the process before still runs: %+v", v)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSpentIsAskedOnce has many requests arrive before it is known what their
// account has spent.
func TestSpentIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, asked := make(chan struct{}), atomic.Int64{}
		m := NewMemory(time.Now)
		m.Spent = func(context.Context, string, time.Time) (limit.Micros, error) {
			asked.Add(1)
			<-answer
			return 98, nil
		}
		a := account("a", limit.Limits{MonthlyBudget: 100})
		var requests sync.WaitGroup
		var allowed atomic.Int64
		for i := range 500 {
			requests.Go(func() {
				if v := reserve(t, m, hold(i, limit.Use{Cost: 1}, a)); v.Refused == "" {
					allowed.Add(1)
				}
			})
		}
		synctest.Wait()
		close(answer)
		requests.Wait()
		if asked.Load() != 1 || allowed.Load() != 2 {
			t.Errorf("asked %d times what was spent, and %d of 500 requests fit into what is left for 2", asked.Load(),
				allowed.Load())
		}
	})
}

// TestIdleAccountsAreForgotten has accounts come without end, as callers may name
// their own users: those that matter no more are not remembered.
func TestIdleAccountsAreForgotten(t *testing.T) {
	c := newClock()
	m := NewMemory(c.Now)
	busy := account("busy", limit.Limits{ConcurrentRequests: 1})
	reserve(t, m, hold(0, limit.Use{Concurrent: 1}, busy))
	for i := range 10_000 {
		c.pass(time.Second)
		a := account(fmt.Sprint("user", i), limit.Limits{RequestsPerMinute: 1})
		reserve(t, m, hold(1+i, limit.Use{Requests: 1}, a))
	}
	if n := len(m.accounts); n > 5000 {
		t.Errorf("%d accounts are remembered, of which 3600 were used in the last hour", n)
	}
	if v := reserve(t, m, hold(1, limit.Use{Concurrent: 1}, busy)); v.Refused != limit.Concurrency {
		t.Errorf("an account with a request under way was forgotten: %+v", v)
	}
}
