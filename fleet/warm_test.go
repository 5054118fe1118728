package fleet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/route/kvindex"
)

// warmable returns a worker that exchanges blocks and says what it holds.
func (s scripted) warmable(name string) Member {
	m := s.member(name, "")
	m.CapacityTokens = 1 << 20
	m.Source = kvindex.Source{Events: true, Replay: true, CapacityBlocks: 1 << 16}
	return m
}

// answering answers every request, and fails a test in which it is to fetch.
func answering(t *testing.T) scripted {
	return func(_ context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
		if r.Fetch != nil && r.Fetch.Only {
			t.Error("a worker that was there is warmed up")
		}
		answers(yield, nil, 0)
	}
}

// holds has a worker report the blocks of a request.
func (f *Fleet) holds(name string, r *parley.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.find(name)
	index, number := f.router.Index(m.replicas[0].id)
	index.Apply(number, kvindex.Batch{Seq: index.Stats(number).Batches, Events: []kvindex.Event{
		{Kind: kvindex.Stored, Keys: keysOf(r.Prompt, r, m.BlockTokens)}}})
}

func (f *Fleet) warmUpOf(name string) *WarmUp {
	for _, s := range f.Standings() {
		if s.Name == name {
			return s.WarmUp
		}
	}
	return nil
}

// TestAWorkerWarmsUpBeforeItGetsRequests has a worker join a fleet that was asked for
// something, while its fetch ends in all ways: it gets requests in any case, and in time.
func TestAWorkerWarmsUpBeforeItGetsRequests(t *testing.T) {
	whole := &parley.Transfer{From: "old", AskedTokens: 496, CameTokens: 496, Bytes: 31 << 10}
	for name, test := range map[string]struct {
		came  *parley.Transfer // after a second; nil if the worker hangs
		fault error
		then  func(f *Fleet) error // while it warms up
		state State                // after half a second
		up    time.Duration        // after what time it is up; 0 if it is not
		miss  string
	}{
		"whole":    {came: whole, state: Warming, up: time.Second},
		"damaged":  {came: &parley.Transfer{Miss: "damaged"}, state: Warming, up: time.Second, miss: "damaged"},
		"an error": {fault: errors.New("no memory"), state: Warming, up: time.Second, miss: "failed"},
		"too slow": {state: Warming, up: 5 * time.Second, miss: "too slow"},
		"drained":  {then: func(f *Fleet) error { return f.Drain("new", -1) }, state: Draining, miss: "stopped"},
		"no request": {then: func(f *Fleet) error { return f.Drain("old", -1) }, state: Warming, up: 5 * time.Second,
			miss: "too slow"},
		"needed": {
			then: func(f *Fleet) error {
				if err := f.Drain("old", -1); err != nil {
					return err
				}
				_, err := hear(context.Background(), f, ask(1))
				return err
			},
			state: Up,
			up:    time.Millisecond,
			miss:  "needed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fetched *parley.Request
				fresh := scripted(func(ctx context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
					if r.Fetch == nil || !r.Fetch.Only {
						answers(yield, nil, 0)
						return
					}
					fetched = r
					if test.came == nil && test.fault == nil {
						<-ctx.Done()
						yield(parley.Delta{}, context.Cause(ctx))
						return
					}
					time.Sleep(time.Second)
					if test.fault != nil {
						yield(parley.Delta{}, test.fault)
						return
					}
					yield(parley.Delta{Transfer: test.came, Usage: &parley.Usage{}}, nil)
				})
				f := newFleet(t, Config{SlowStart: -1}, answering(t).warmable("old"))
				synctest.Wait()
				r := &parley.Request{Model: modelID, Prompt: make([]parley.Token, 500), MaxTokens: 1,
					Salt: parley.Salt{7}, PublicTokens: 64, Tenant: "acme"}
				if _, err := hear(t.Context(), f, r); err != nil {
					t.Fatal(err)
				}
				f.holds("old", r)
				if err := f.Join(fresh.warmable("new")); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				synctest.Wait()
				if test.then != nil {
					if err := test.then(f); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(500 * time.Millisecond)
				if s := f.stateOf("new"); s != test.state {
					t.Errorf("it is %s, want %s", s, test.state)
				}
				for f.stateOf("new") != Up && time.Since(began) < 10*time.Second {
					time.Sleep(time.Millisecond)
				}
				if s := f.stateOf("new"); (s == Up) != (test.up > 0) ||
					s == Up && time.Since(began) > test.up+501*time.Millisecond {
					t.Errorf("it is %s after %v, want %v", s, time.Since(began), test.up)
				}
				got := f.warmUpOf("new")
				if got == nil || got.Prefixes != 1 || got.Miss != test.miss || test.came == whole && got.Tokens != 496 {
					t.Errorf("%+v, want %q", got, test.miss)
				}
				if fetched.Salt != r.Salt || fetched.PublicTokens != 64 || fetched.Fetch.Worker != "old" ||
					fetched.Fetch.Ticket == "" || fetched.Fetch.Tokens != 496 || len(fetched.Prompt) != 501 {
					t.Errorf("%+v, %+v", fetched, fetched.Fetch)
				}
			})
		})
	}
}

// TestWakingWorkersWarmUp puts a worker to sleep and wakes it: what it says before it sleeps
// is not what it can do afterwards. Restarted ones warm up, too, but not those that were
// only out of reach; and the first of a fleet has nowhere to fetch from.
func TestWakingWorkersWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fetches atomic.Int32
		fresh := scripted(func(_ context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
			if r.Fetch != nil && r.Fetch.Only {
				fetches.Add(1)
				yield(parley.Delta{Transfer: &parley.Transfer{CameTokens: 496}, Usage: &parley.Usage{}}, nil)
				return
			}
			answers(yield, nil, 0)
		})
		var mu sync.Mutex // guards what follows
		said := Condition{Instance: "one", Format: "f", BlockBytes: 1024}
		lost := false
		m := fresh.warmable("new")
		set := func(do func()) error {
			mu.Lock()
			defer mu.Unlock()
			do()
			return nil
		}
		m.Probe = func(context.Context) (Condition, error) {
			mu.Lock()
			defer mu.Unlock()
			if lost {
				return Condition{}, errors.New("out of reach")
			}
			return said, nil
		}
		m.Sleep = func(context.Context) error { return set(func() { said.Sleeping, said.Format = true, "" }) }
		m.Wake = func(context.Context) error { return set(func() { said.Sleeping, said.Format = false, "f" }) }
		f := newFleet(t, Config{SlowStart: -1}, answering(t).warmable("old"), m)
		synctest.Wait()
		r := &parley.Request{Model: modelID, Prompt: make([]parley.Token, 500), MaxTokens: 1}
		if _, err := hear(t.Context(), f, r); err != nil {
			t.Fatal(err)
		}
		f.holds("old", r)
		after := func(what string, want int, do func() error) {
			t.Helper()
			if err := do(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if n, s := int(fetches.Load()), f.stateOf("new"); n != want || s != Up && s != Asleep {
				t.Errorf("%s: %d warm-ups, want %d; it is %s", what, n, want, s)
			}
		}
		after("asleep", 0, func() error { return f.Sleep("new", -1) })
		after("awake", 1, func() error { return f.Wake("new") })
		after("restarted", 2, func() error { return set(func() { said.Instance = "two" }) })
		f.holds("new", r)
		after("out of reach", 2, func() error {
			_ = set(func() { lost = true })
			time.Sleep(10 * time.Second)
			return set(func() { lost = false })
		})
		if f.warmUpOf("old") != nil {
			t.Error("the first worker was warmed up")
		}
	})
}

// TestRecentPromptsAreBounded remembers more than it may.
func TestRecentPromptsAreBounded(t *testing.T) {
	var p recentPrompts
	for i := range 3 * recentMost {
		p.add(&recentPrompt{prompt: make([]parley.Token, i%4096)})
	}
	sum := 0
	for i := range p.list {
		sum += p.list[i].length()
	}
	if sum != p.tokens || sum > recentTokens || len(p.list) > recentMost || sum < recentTokens/2 {
		t.Errorf("%d prompts with %d tokens, %d counted", len(p.list), sum, p.tokens)
	}
	p.add(&recentPrompt{prompt: make([]parley.Token, recentTokens+1)})
	if p.tokens != sum {
		t.Error("a prompt that is too large displaces all others")
	}
}
