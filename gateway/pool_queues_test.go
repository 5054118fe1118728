package gateway

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// poolSet is a worker in pools, each with a worker of its own. Paid requests may go
// to the pools paid and shared, others to free.
type poolSet struct {
	mu    sync.Mutex
	up    map[string]int
	pools map[string]parley.Worker
}

var poolNames = []string{"paid", "shared", "free"}

func (p *poolSet) Models() []parley.Model { return []parley.Model{{ID: modelID, ContextTokens: 100}} }

func (p *poolSet) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return p.Pool(p.PoolsFor(r)[0]).Generate(ctx, r)
}

func (p *poolSet) Pools(string) []string { return poolNames }

func (p *poolSet) PoolsFor(r *parley.Request) []string {
	allowed := []string{"paid", "shared"}
	if r.Class == parley.Free {
		allowed = []string{"free"}
	}
	slices.SortStableFunc(allowed, func(a, b string) int { return min(p.Ready("", b), 1) - min(p.Ready("", a), 1) })
	return allowed
}

func (p *poolSet) Ready(_, pool string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up[pool]
}

func (p *poolSet) set(pool string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up[pool] = n
}

func (p *poolSet) Cached(*parley.Request, string) (int, bool) { return 0, false }

func (p *poolSet) NoWorkers(*parley.Request) error {
	return parley.Errorf(parley.Unavailable, "No worker of your pools is up.")
}

// Pool marks what a pool's worker says with who computed it.
func (p *poolSet) Pool(name string) parley.Worker { return routedWorker{p.pools[name], name} }

type routedWorker struct {
	parley.Worker
	pool string
}

func (w routedWorker) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		by := &parley.Routing{Worker: w.pool, Pool: w.pool}
		for d, err := range w.Worker.Generate(ctx, r) {
			d.Routing = by
			if d.Usage != nil {
				d.Usage.Routing = by
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// startPools serves three pools, each with a worker of one slot that writes a token a
// second.
func startPools(t *testing.T, change ...func(*Config)) (*server, *poolSet) {
	p := &poolSet{up: map[string]int{}, pools: map[string]parley.Worker{}}
	for _, name := range poolNames {
		p.up[name], p.pools[name] = 1, slots(t, 1, "one two three", time.Second)
	}
	s := start(t, p, append([]func(*Config){narrow}, change...)...)
	s.gateway.who = byKey
	return s, p
}

// flood has n clients of a tier ask for streams, and returns when all were heard.
func (s *server) flood(group *sync.WaitGroup, key string, n int) {
	for range n {
		group.Go(func() { _, _, _ = s.send(s.t.Context(), key, `,"stream":true`) })
	}
	synctest.Wait()
}

func TestAPoolHasItsOwnQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := startPools(t)
		var group sync.WaitGroup
		s.flood(&group, "free-crowd", 24)
		began := time.Now()
		response, body, err := s.send(t.Context(), "pro-anna", `,"stream":true`)
		if err != nil || response.StatusCode != 200 || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v: %s %v", response.Status, time.Since(began), body, err)
		}
		if wait := response.Header.Get("X-Queue-Wait"); wait != "0.000" {
			t.Errorf("it waited %s s behind another pool's requests", wait)
		}
		_, own := s.do("GET", "/v1/queue", "", "Authorization", "Bearer pro-anna")
		_, theirs := s.do("GET", "/v1/queue", "", "Authorization", "Bearer free-crowd")
		if strings.Contains(own, `"free"`+`,"waiting":2`) || !strings.Contains(own, `"pool":"paid"`) ||
			!strings.Contains(theirs, `"pool":"free"`) ||
			strings.Contains(own, `"pool":"free"`) || strings.Contains(theirs, `"pool":"paid"`) {
			t.Errorf("the paid tenant sees %s, the free one %s", own, theirs)
		}
		s.wantMetric(`parley_queue_waiting{model="tiny/llama:1",pool="paid",tier="pro"}`, "0")
		group.Wait()
	})
}

func TestAFailingPoolKeepsItsBreakerToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startPools(t)
		p.pools["free"].(*crowd).script = func(*parley.Request) []say {
			return []say{{err: errors.New("out of memory")}}
		}
		for range 5 {
			if response, _, _ := s.send(t.Context(), "free-anna", ""); response.StatusCode != 500 {
				t.Errorf("a failing pool answers %s", response.Status)
			}
		}
		if response, _, _ := s.send(t.Context(), "free-anna", ""); response.StatusCode != 503 {
			t.Errorf("a pool that fails is asked on: %s", response.Status)
		}
		s.wantMetric(`parley_breaker_state{kind="worker",model="tiny/llama:1",pool="free"}`, "2")
		if response, body, _ := s.send(t.Context(), "pro-anna", ""); response.StatusCode != 200 {
			t.Errorf("another pool: %s %s", response.Status, body)
		}
		s.wantMetric(`parley_breaker_state{kind="worker",model="tiny/llama:1",pool="paid"}`, "0")
	})
}

// TestAFailingPoolIsLeftForAnother asks while the first of two pools fails: what may
// go to the second goes there.
func TestAFailingPoolIsLeftForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startPools(t)
		p.pools["paid"].(*crowd).script = func(*parley.Request) []say {
			return []say{{err: errors.New("out of memory")}}
		}
		for range 5 {
			_, _, _ = s.send(t.Context(), "pro-anna", "")
		}
		if response, body, _ := s.send(t.Context(), "pro-anna", ""); response.StatusCode != 200 ||
			!strings.Contains(body, `"pool":"shared"`) {
			t.Errorf("%s %s", response.Status, body)
		}
	})
}

// TestWaitingRequestsFollowTheirPools lets the first pool lose its worker while
// requests wait there, and get it back.
func TestWaitingRequestsFollowTheirPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startPools(t)
		p.set("paid", 0)
		p.set("shared", 0)
		var group sync.WaitGroup
		heard := make(chan string, 2)
		ask := func() {
			group.Go(func() {
				_, body, _ := s.send(t.Context(), "pro-anna", "")
				_, after, _ := strings.Cut(body, `"pool":"`)
				pool, _, _ := strings.Cut(after, `"`)
				heard <- pool
			})
			synctest.Wait()
		}
		ask()
		p.set("shared", 1)
		if pool := <-heard; pool != "shared" {
			t.Errorf("with a worker in the second pool, %q answers", pool)
		}
		s.occupy(&group, "enterprise-crowd", 1, time.Second) // in shared
		ask()
		p.set("paid", 1)
		if pool := <-heard; pool != "paid" {
			t.Errorf("with a worker back in the first pool, %q answers", pool)
		}
		group.Wait()
	})
}

func TestNoWorkerIsSaidWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := startPools(t)
		p.set("free", 0)
		began := time.Now()
		response, body, err := s.send(t.Context(), "free-anna", "")
		if took := time.Since(began); err != nil || response.StatusCode != 503 || took < 5*time.Second ||
			took > 7*time.Second ||
			!strings.Contains(body, "No worker of your pools is up.") {
			t.Errorf("%v after %v: %s %v", response.Status, took, body, err)
		}
		s.wantMetric(`parley_shed_total{pool="free",reason="no_worker",tier="free"}`, "1")
		s.wantMetric(`parley_breaker_state{kind="worker",model="tiny/llama:1",pool="free"}`, "0")
		if response, _, _ := s.send(t.Context(), "pro-anna", ""); response.StatusCode != 200 {
			t.Errorf("another pool: %s", response.Status)
		}
	})
}
