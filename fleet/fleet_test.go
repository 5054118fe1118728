package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/worker"
)

func hear(ctx context.Context, w parley.Worker, r *parley.Request) (out []parley.Delta, err error) {
	for d, err := range w.Generate(ctx, r) {
		if err != nil {
			return out, err
		}
		out = append(out, d)
	}
	return out, nil
}

// gather puts the deltas of each choice together: all that a client sees.
func gather(r *parley.Request, deltas []parley.Delta) (out []parley.Delta) {
	out = make([]parley.Delta, max(1, r.Choices))
	for _, d := range deltas {
		o := &out[d.Choice]
		o.Tokens, o.Logprobs = append(o.Tokens, d.Tokens...), append(o.Logprobs, d.Logprobs...)
		o.PromptLogprobs = append(o.PromptLogprobs, d.PromptLogprobs...)
		if d.Finish != "" {
			o.Finish, o.StopString = d.Finish, d.StopString
		}
	}
	return out
}

// requests of all kinds: choices, seeds, stop strings, log-probabilities,
// penalties, schemas.
func randomRequest(rng *rand.Rand, i int) *parley.Request {
	r := &parley.Request{
		ID: fmt.Sprint("r", i), Model: modelID, Tenant: fmt.Sprint(rng.IntN(4)), MaxTokens: 20 + rng.IntN(100),
		Choices: 1 + rng.IntN(3),
		Sampling: parley.Sampling{Temperature: float32(rng.IntN(2)), Seed: rng.Uint64(), FrequencyPenalty: 0.5,
			RepetitionPenalty: 1.2},
		Stop: parley.Stop{IgnoreEnd: true,
			Strings: []string{string(spelling[rng.IntN(60)]) + string(spelling[rng.IntN(60)])}},
		Logprobs: rng.IntN(2) == 0, TopLogprobs: 2,
	}
	for range 1 + rng.IntN(120) {
		r.Prompt = append(r.Prompt, parley.Token(rng.IntN(vocab)))
	}
	switch rng.IntN(4) {
	case 0:
		r.Grammar = new(
			parley.JSONSchema(
				[]byte(
					`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer","maximum":999},"minItems":4,"maxItems":12},"b":{"type":"string","minLength":6,"maxLength":20}},"required":["a","b"],"additionalProperties":false}`), true))
		r.Stop.Strings = nil
	case 1:
		r.PromptLogprobs = true
	}
	return r
}

// TestStreamsSurvive kills one of three workers every 50 ms of virtual time while
// 48 answers are written. Each client sees what it would have seen of one worker
// that lives, token by token.
func TestStreamsSurvive(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			calm := newOracle(t, 0)
			var workers []*frail
			var members []Member
			for i := range 3 {
				workers = append(workers, newFrail(newOracle(t, 2*time.Millisecond)))
				members = append(members, joiner(fmt.Sprint("w", i), workers[i]))
			}
			f := newFleet(t, Config{ProbeEvery: 20 * time.Millisecond, SlowStart: -1}, members...)
			ctx, stop := context.WithCancel(t.Context())
			var storm, wg sync.WaitGroup
			storm.Go(func() {
				for i := 0; sleep(ctx, 50*time.Millisecond); i++ {
					workers[i%3].kill()
					sleep(ctx, 20*time.Millisecond)
					workers[i%3].revive()
				}
			})
			var moves, resumed int
			var mu sync.Mutex
			for i := range 48 {
				r := randomRequest(rng, i)
				wg.Go(func() {
					want, err := hear(t.Context(), calm, r)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := hear(t.Context(), f, r)
					if err != nil {
						t.Errorf("seed %d, request %d: %v", seed, i, err)
						return
					}
					if a, b := gather(r, got), gather(r, want); !reflect.DeepEqual(a, b) {
						t.Errorf("seed %d, request %d:\ngot  %+v\nwant %+v", seed, i, a, b)
					}
					u := got[len(got)-1].Usage
					if w := want[len(want)-1].Usage; u.OutputTokens != w.OutputTokens ||
						u.PromptTokens != w.PromptTokens || u.Routing == nil || got[0].Routing == nil {
						t.Errorf("usage %+v, want %+v", u, w)
					}
					mu.Lock()
					defer mu.Unlock()
					if u.Routing.Moves > 0 {
						moves++
					}
					for _, d := range got[1:] {
						if d.Routing != nil {
							resumed++
						}
					}
				})
			}
			wg.Wait()
			stop()
			storm.Wait()
			if moves == 0 || resumed == 0 {
				t.Errorf("%d answers moved, %d of them after they had begun", moves, resumed)
			}
			for _, s := range f.Standings() {
				if s.Answering != 0 {
					t.Errorf("left behind: %+v", s)
				}
			}
		})
	}
}

// two returns a fleet of two workers and them.
func two(t *testing.T, cfg Config) (*Fleet, [2]*frail) {
	a, b := newFrail(newOracle(t, time.Millisecond)), newFrail(newOracle(t, time.Millisecond))
	f := newFleet(t, cfg, joiner("a", a), joiner("b", b))
	synctest.Wait()
	return f, [2]*frail{a, b}
}

func ask(tokens int) *parley.Request {
	return &parley.Request{Model: modelID, Prompt: []parley.Token{1, 2, 3, 4}, MaxTokens: tokens,
		Stop: parley.Stop{IgnoreEnd: true}}
}

// TestErrorsGoElsewhere has one worker fail every request: none of their clients
// hears of it, and its breaker opens before any request has used its tries up.
func TestErrorsGoElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{})
		w[0].set(errors.New("out of memory"), 0)
		for range 40 {
			if _, err := hear(t.Context(), f, ask(5)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if asked := w[0].asked.Load(); asked == 0 || asked > 4 {
			t.Errorf("the failing worker was asked %d times", asked)
		}
		if s := f.Standings()[0]; s.State != Failing || s.Failed == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWhatTheClientDidIsNotTriedAgain passes on errors that are the request's own.
func TestWhatTheClientDidIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{})
		r := ask(5)
		r.Prompt = []parley.Token{vocab}
		if _, err := hear(t.Context(), f, r); parley.CodeOf(err) != parley.InvalidRequest {
			t.Error(err)
		}
		if n := w[0].asked.Load() + w[1].asked.Load(); n != 1 {
			t.Errorf("it was asked %d times", n)
		}
	})
}

// TestRefusalsOfBusyWorkersPassOn has both workers refuse a request for a while: the client hears their words and when
// to come again, and neither of them is thought to be failing.
func TestRefusalsOfBusyWorkersPassOn(t *testing.T) {
	for _, code := range []parley.Code{parley.RateLimited, parley.Overloaded, parley.Unprocessable, parley.Conflict} {
		synctest.Test(t, func(t *testing.T) {
			f, w := two(t, Config{})
			for _, x := range w {
				x.set(&parley.Error{Code: code, Message: "Not now.", Wait: 7 * time.Second}, 0)
			}
			_, err := hear(t.Context(), f, ask(5))
			said, ok := errors.AsType[*parley.Error](err)
			if !ok || said.Code != code || said.Message != "Not now." || said.Wait != 7*time.Second {
				t.Errorf("%s became %v", code, err)
			}
			for _, x := range w {
				x.set(nil, 0)
			}
			for _, s := range f.Standings() {
				if s.State != Up {
					t.Errorf("after %s a worker is %+v", code, s)
				}
			}
			if _, err := hear(t.Context(), f, ask(5)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhereAnotherModelIsAsked tries each worker once, where another model is asked after the error that they give, and
// passes that error on. It waits for none that is down.
func TestWhereAnotherModelIsAsked(t *testing.T) {
	for _, row := range []struct {
		fails     error
		code      parley.Code
		elsewhere []parley.Code
		once      bool
	}{
		{parley.Errorf(parley.RateLimited, "Not now."), parley.RateLimited, []parley.Code{parley.RateLimited}, true},
		{parley.Errorf(parley.Internal, "Broken."), parley.Internal, []parley.Code{parley.Internal}, true},
		{errReset, parley.Unavailable, []parley.Code{parley.Unavailable}, true},
		{parley.Errorf(parley.RateLimited, "Not now."), parley.RateLimited, []parley.Code{parley.Unavailable}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, w := two(t, Config{})
			for _, x := range w {
				x.set(row.fails, 0)
			}
			r := ask(5)
			r.Elsewhere = row.elsewhere
			_, err := hear(t.Context(), f, r)
			if _, known := errors.AsType[*parley.Error](err); !known || parley.CodeOf(err) != row.code {
				t.Errorf("%v became %v", row.fails, err)
			}
			if a, b := w[0].asked.Load(), w[1].asked.Load(); a < 1 || b < 1 || (a+b == 2) != row.once {
				t.Errorf("after %v the workers were asked %d and %d times", row.fails, a, b)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{})
		w[0].kill()
		w[1].kill()
		time.Sleep(5 * time.Second)
		began, r := time.Now(), ask(5)
		r.Elsewhere = []parley.Code{parley.Unavailable}
		if _, err := hear(t.Context(), f, r); parley.CodeOf(err) != parley.Unavailable || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestARequestThatKillsIsGivenUp sends one that no worker survives.
func TestARequestThatKillsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{Losses: 8})
		for _, x := range w {
			x.set(errReset, 0)
		}
		_, err := hear(t.Context(), f, ask(5))
		if parley.CodeOf(err) != parley.Unavailable || !strings.Contains(err.Error(), "not retried") {
			t.Error(err)
		}
		if n := w[0].asked.Load() + w[1].asked.Load(); n != 3 {
			t.Errorf("it was sent %d times", n)
		}
	})
}

// TestASilentWorkerIsLeft stops a worker without a word, as SIGSTOP does: probes
// find out, and its answers move.
func TestASilentWorkerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{})
		want, _ := hear(t.Context(), newOracle(t, 0), ask(400))
		var got []parley.Delta
		for d, err := range f.Generate(t.Context(), ask(400)) {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, d); len(got) == 20 {
				for _, x := range w {
					x.silent.Store(x.active.Load() > 0)
				}
			}
		}
		if !reflect.DeepEqual(gather(ask(400), got), gather(ask(400), want)) {
			t.Error("the answer changed")
		}
		for _, x := range w {
			x.silent.Store(false)
		}
	})
}

// TestDraining keeps work from a worker while its answers finish, or move.
func TestDraining(t *testing.T) {
	for _, within := range []time.Duration{-1, 10 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			f, w := two(t, Config{})
			var wg sync.WaitGroup
			var moved atomic.Int64
			for range 8 {
				wg.Go(func() {
					got, err := hear(t.Context(), f, ask(100))
					if err != nil {
						t.Error(err)
						return
					}
					if got[len(got)-1].Usage.Routing.Moves > 0 {
						moved.Add(1)
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			had := w[0].active.Load()
			if had == 0 || had == 8 {
				t.Fatalf("%d of 8 answers are with one of two workers", had)
			}
			if err := f.Drain("a", within); err != nil {
				t.Fatal(err)
			}
			if f.Ready(modelID, f.cfg.Pools[0].Name) != 1 {
				t.Errorf("%d are ready", f.Ready(modelID, f.cfg.Pools[0].Name))
			}
			wg.Wait()
			if wanted := within >= 0; (moved.Load() > 0) != wanted {
				t.Errorf("within %v, %d of %d answers moved", within, moved.Load(), had)
			}
			before := w[0].asked.Load()
			for range 10 {
				if _, err := hear(t.Context(), f, ask(1)); err != nil {
					t.Error(err)
				}
			}
			if w[0].asked.Load() != before {
				t.Error("a drained worker got work")
			}
			if err := f.Resume("a"); err != nil || f.Ready(modelID, f.cfg.Pools[0].Name) != 2 {
				t.Errorf("%v, %d are ready", err, f.Ready(modelID, f.cfg.Pools[0].Name))
			}
		})
	}
}

// TestLeaving lets a worker's answers finish before it is closed.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFrail(newOracle(t, time.Millisecond))
		m := joiner("a", w)
		closed := false
		m.Close = func() error { closed = true; return nil }
		f := newFleet(t, Config{WaitMax: time.Second}, m)
		synctest.Wait()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := hear(t.Context(), f, ask(100)); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(20 * time.Millisecond)
		if err := f.Leave("a"); err != nil || closed {
			t.Error(err, closed)
		}
		if err := f.Leave("a"); err == nil {
			t.Error("it left twice")
		}
		wg.Wait()
		synctest.Wait()
		if !closed || len(f.Standings()) != 0 {
			t.Errorf("closed is %v, and there are %v", closed, f.Standings())
		}
		began := time.Now()
		if _, err := hear(t.Context(), f, ask(1)); parley.CodeOf(err) != parley.Unavailable {
			t.Error(err)
		}
		if time.Since(began) > time.Second {
			t.Error("it waited although nobody is there")
		}
	})
}

// TestWaitingForAWorker lets requests wait while the only one is away.
func TestWaitingForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFrail(newOracle(t, time.Millisecond))
		f := newFleet(t, Config{}, joiner("a", w))
		synctest.Wait()
		w.kill()
		time.Sleep(3 * time.Second)
		if f.Ready(modelID, f.cfg.Pools[0].Name) != 0 || f.Standings()[0].State != Down {
			t.Errorf("%+v", f.Standings())
		}
		go func() { time.Sleep(3 * time.Second); w.revive() }()
		began := time.Now()
		if _, err := hear(t.Context(), f, ask(5)); err != nil || time.Since(began) < 3*time.Second {
			t.Error(err, time.Since(began))
		}
		w.kill()
		time.Sleep(3 * time.Second)
		began = time.Now()
		_, err := hear(t.Context(), f, ask(5))
		if parley.CodeOf(err) != parley.Unavailable || time.Since(began) != 5*time.Second ||
			!strings.Contains(err.Error(), "pool 'default': 1 down") {
			t.Error(err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := hear(ctx, f, ask(5)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// An untold worker gives text and no ids, like engines of others.
type untold struct{ parley.Worker }

func (w untold) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		for d, err := range w.Worker.Generate(ctx, r) {
			for _, id := range d.Tokens {
				d.Text += spelling[id : id+1]
			}
			d.Tokens = nil
			if !yield(d, err) {
				return
			}
		}
	}
}

// TestTextOnlyWorkers have their answers moved before the first word only, whether
// they are known to tell no ids or just do not.
func TestTextOnlyWorkers(t *testing.T) {
	t.Run("known", func(t *testing.T) { testTextOnly(t, ResumeNever) })
	t.Run("found out", func(t *testing.T) { testTextOnly(t, ResumeExact) })
}

func testTextOnly(t *testing.T, how Resuming) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newFrail(untold{newOracle(t, time.Millisecond)}), newFrail(untold{newOracle(t, time.Millisecond)})
		var members []Member
		for i, w := range []*frail{a, b} {
			m := joiner(string(rune('a'+i)), w)
			m.TextOnly, m.Resume, m.Probe = how == ResumeNever, how, nil
			members = append(members, m)
		}
		f := newFleet(t, Config{}, members...)
		a.set(errReset, 0)
		for range 5 {
			if _, err := hear(t.Context(), f, ask(5)); err != nil {
				t.Error(err)
			}
		}
		a.set(nil, 3)
		b.set(nil, 3)
		got, err := hear(t.Context(), f, ask(50))
		if parley.CodeOf(err) != parley.Unavailable || len(got) != 3 || got[2].Text == "" {
			t.Errorf("%d deltas, %v", len(got), err)
		}
	})
}

// TestGoingOnAsAPrompt moves a greedy answer to a worker that only takes prompts.
func TestGoingOnAsAPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var members []Member
		var workers []*frail
		for i := range 2 {
			w := newFrail(newOracle(t, time.Millisecond))
			w.set(nil, 30)
			m := joiner(string(rune('a'+i)), w)
			m.Resume, m.Probe = ResumeAsPrompt, nil
			workers, members = append(workers, w), append(members, m)
		}
		f := newFleet(t, Config{}, members...)
		want, _ := hear(t.Context(), newOracle(t, 0), ask(100))
		got, err := hear(t.Context(), f, ask(100))
		if err != nil || !reflect.DeepEqual(gather(ask(100), got), gather(ask(100), want)) {
			t.Errorf("%v: got %v, want %v", err, gather(ask(100), got), gather(ask(100), want))
		}
		if u := got[len(got)-1].Usage; u.PromptTokens != 4 || u.OutputTokens != 100 || u.Routing.Moves < 3 {
			t.Errorf("%+v", u)
		}
		held := ask(100)
		held.Grammar = new(parley.Regex("[a-z]{90}"))
		if _, err := hear(t.Context(), f, held); parley.CodeOf(err) != parley.Unavailable {
			t.Error(err)
		}
		if workers[0].asked.Load() == 0 || workers[1].asked.Load() == 0 {
			t.Error("one worker did all")
		}
	})
}

// TestHedging has a worker that takes long to begin: the other one is asked, too,
// and answers. One that is just slow is let go; one that fails is not missed.
func TestHedging(t *testing.T) {
	for _, fault := range []error{nil, errReset, errors.New("out of memory")} {
		synctest.Test(t, func(t *testing.T) {
			f, w := two(t, Config{HedgeAfter: 50 * time.Millisecond, SlowStart: -1, StallMax: time.Minute})
			for _, x := range w {
				x.set(fault, 0)
			}
			w[0].set(nil, 0)
			w[1].silent.Store(fault == nil)
			want, _ := hear(t.Context(), newOracle(t, 0), ask(30))
			for range 12 {
				began := time.Now()
				got, err := hear(t.Context(), f, ask(30))
				if err != nil || !reflect.DeepEqual(gather(ask(30), got), gather(ask(30), want)) {
					t.Fatalf("%v: %v", err, got)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
			}
			if w[1].asked.Load() == 0 {
				t.Error("the slow worker was never asked")
			}
			w[1].silent.Store(false)
			for _, s := range f.Standings() {
				if s.Answering != 0 {
					t.Errorf("left behind: %+v", s)
				}
			}
		})
	}
}

// TestPools keeps payers, tiers and purposes apart.
func TestPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Pools: []Pool{
			{Name: "vip", Tenants: []string{"acme"}},
			{Name: "typing", Purpose: parley.ForComplete},
			{Name: "talk", Classes: []parley.Class{parley.Pro, parley.Enterprise}},
			{Name: "rest", Classes: []parley.Class{parley.Free}},
		}}
		var members []Member
		for _, pool := range []string{"vip", "typing", "talk"} {
			m := joiner(pool+"-1", newFrail(newOracle(t, time.Millisecond)))
			m.Pool = pool
			members = append(members, m)
		}
		f := newFleet(t, cfg, members...)
		synctest.Wait()
		for _, c := range []struct {
			tenant  string
			class   parley.Class
			purpose parley.Purpose
			want    string
		}{
			{"acme", parley.Free, "", "vip"},
			{"acme", parley.Free, parley.ForComplete, "typing"},
			{"other", parley.Pro, parley.ForChat, "talk"},
			{"other", parley.Pro, parley.ForComplete, "typing"},
			{"other", parley.Free, parley.ForChat, ""},
		} {
			r := ask(2)
			r.Tenant, r.Class, r.Purpose = c.tenant, c.class, c.purpose
			got, err := hear(t.Context(), f, r)
			if c.want == "" {
				if parley.CodeOf(err) != parley.Unavailable {
					t.Errorf("%+v: %v", c, err)
				}
				continue
			}
			if err != nil || got[0].Routing.Pool != c.want {
				t.Errorf("%+v: %v, %v", c, got, err)
			}
		}
	})
}

// TestConversationsStay sends turns that grow: each goes where its context is.
func TestConversationsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var members []Member
		for i := range 4 {
			members = append(members, joiner(fmt.Sprint("w", i), newFrail(newOracle(t, time.Millisecond))))
		}
		f := newFleet(t, Config{SlowStart: -1}, members...)
		synctest.Wait()
		moved, found := 0, 0
		for c := range 12 {
			prompt := []parley.Token{parley.Token(c)}
			home := ""
			for range 4 {
				for range 110 {
					prompt = append(prompt, parley.Token((c*7+len(prompt)*3)%60))
				}
				r := ask(8)
				r.Prompt = prompt
				got, err := hear(t.Context(), f, r)
				if err != nil {
					t.Fatal(err)
				}
				u := got[len(got)-1].Usage
				if home != "" && u.Routing.Worker != home {
					moved++
				}
				home = u.Routing.Worker
				found += u.CachedTokens
				prompt = append(prompt, gather(r, got)[0].Tokens...)
			}
		}
		if moved > 0 || found < 12*(96+208+320) {
			t.Errorf("%d turns were sent to another worker, %d tokens were found", moved, found)
		}
	})
}

// TestAnEnginesOwnErrors reach the client in its words after a few tries, and one such request takes no worker from
// others.
func TestAnEnginesOwnErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{})
		fault := &worker.EngineError{Err: parley.Errorf(parley.Unavailable, "The engine answered with an error: broke")}
		for _, x := range w {
			x.set(fault, 0)
		}
		began := time.Now()
		if _, err := hear(t.Context(), f, ask(5)); err == nil || !strings.Contains(err.Error(), "broke") {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("it took %v", waited)
		}
		for i, s := range f.Standings() {
			if s.State != Up || s.Failed == 0 || s.Lost != 0 {
				t.Errorf("worker %d is %+v", i, s)
			}
			w[i].set(nil, 0)
		}
		if _, err := hear(t.Context(), f, ask(5)); err != nil {
			t.Errorf("another request: %v", err)
		}
	})
}
