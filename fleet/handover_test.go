package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestAWorkerThatStopsHandsOver has a worker say that it is about to stop, while what others fetch from it ends in
// all ways: its events are listened to until then and not longer, and again when it has started anew.
func TestAWorkerThatStopsHandsOver(t *testing.T) {
	for name, test := range map[string]struct {
		cfg   Config
		fault error         // of the other worker
		hangs bool          // it does
		alone bool          // it is the only worker
		held  time.Duration // how long it is listened to after it was found draining
		asked int
	}{
		"whole":        {held: time.Second, asked: 1},
		"fails":        {fault: errors.New("no memory"), held: time.Second, asked: 1},
		"too slow":     {hangs: true, held: 5 * time.Second, asked: 1},
		"alone":        {alone: true},
		"no transfers": {cfg: Config{NoTransfers: true}},
		"no warm-up":   {cfg: Config{WarmMax: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.cfg.SlowStart = -1
				asked := 0
				other := scripted(func(ctx context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
					if r.Fetch == nil || !r.Fetch.Only || r.Fetch.Worker != "old" || r.Fetch.Tokens != 496 {
						t.Errorf("it is asked for %+v", r.Fetch)
					}
					asked++
					if test.hangs {
						<-ctx.Done()
						yield(parley.Delta{}, context.Cause(ctx))
						return
					}
					time.Sleep(time.Second)
					if test.fault != nil {
						yield(parley.Delta{}, test.fault)
						return
					}
					yield(parley.Delta{Transfer: &parley.Transfer{CameTokens: 496}, Usage: &parley.Usage{}}, nil)
				})
				old, listening := stopping(t)
				f := newFleet(t, test.cfg, old.Member)
				synctest.Wait()
				r := &parley.Request{Model: modelID, Prompt: make([]parley.Token, 500), MaxTokens: 1}
				if _, err := hear(t.Context(), f, r); err != nil {
					t.Fatal(err)
				}
				if !test.alone {
					m := other.warmable("other")
					if err := f.Join(m); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Second)
				}
				f.holds("old", r)
				old.say(Condition{Instance: "one", Draining: true, MoveWithin: time.Minute})
				for f.stateOf("old") != Draining {
					time.Sleep(time.Millisecond)
				}
				began := time.Now()
				for listening() {
					time.Sleep(time.Millisecond)
				}
				held := time.Since(began)
				if held < test.held-2*time.Millisecond || held > test.held+time.Second || asked != test.asked {
					t.Errorf("it was listened to for %v, want %v; %d fetches, want %d",
						held, test.held, asked, test.asked)
				}
				time.Sleep(10 * time.Second)
				if listening() {
					t.Error("a worker that stops is listened to again")
				}
				old.say(Condition{Instance: "two"})
				time.Sleep(2 * time.Second)
				if !listening() {
					t.Error("a worker that has started again is not listened to")
				}
			})
		})
	}
}

// TestAReceiverFailsLate has one of two workers that fetch from a third find the first prompt gone, and fail at the
// second: the other one is asked for what both should have had.
func TestAReceiverFailsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const prompts = 4
		var mu sync.Mutex
		asked := 0 // of the one that fails
		ill := scripted(func(_ context.Context, _ *parley.Request, yield func(parley.Delta, error) bool) {
			mu.Lock()
			defer mu.Unlock()
			if asked++; asked == 1 {
				yield(parley.Delta{Transfer: &parley.Transfer{Miss: "gone"}, Usage: &parley.Usage{}}, nil)
				return
			}
			yield(parley.Delta{}, errors.New("no memory"))
		})
		fetched := map[parley.Token]bool{}
		well := scripted(func(_ context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
			mu.Lock()
			defer mu.Unlock()
			fetched[r.Prompt[0]] = true
			yield(parley.Delta{Transfer: &parley.Transfer{CameTokens: 496}, Usage: &parley.Usage{}}, nil)
		})
		old, listening := stopping(t)
		f := newFleet(t, Config{SlowStart: -1}, old.Member)
		synctest.Wait()
		var all []*parley.Request
		for i := range prompts {
			r := &parley.Request{Model: modelID, Prompt: make([]parley.Token, 500), MaxTokens: 1}
			r.Prompt[0] = parley.Token(i)
			if _, err := hear(t.Context(), f, r); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		for name, s := range map[string]scripted{"ill": ill, "well": well} {
			if err := f.Join(s.warmable(name)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		for _, r := range all {
			f.holds("old", r)
		}
		old.say(Condition{Instance: "one", Draining: true, MoveWithin: time.Minute})
		for f.stateOf("old") != Draining || listening() {
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		if asked != prompts/2 || len(fetched) != prompts {
			t.Errorf("one was asked %d times, and the other one fetched %d prompts", asked, len(fetched))
		}
	})
}

// A stoppable is a worker that says what a test has it say.
type stoppable struct {
	Member
	mu   sync.Mutex
	said Condition
}

func (s *stoppable) say(c Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Format, c.BlockBytes = "f", 1024
	s.said = c
}

// stopping returns a worker, and whether its events are listened to.
func stopping(t *testing.T) (s *stoppable, listening func() bool) {
	s = &stoppable{Member: answering(t).warmable("old")}
	s.say(Condition{Instance: "one"})
	listeners := 0
	s.Probe = func(context.Context) (Condition, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.said, nil
	}
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		listeners += n
	}
	s.Follow = func(ctx context.Context, _ *Feed) error {
		count(1)
		defer count(-1)
		<-ctx.Done()
		return ctx.Err()
	}
	return s, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return listeners > 0
	}
}
