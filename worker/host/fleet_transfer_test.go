package host

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/route"
	"parley/worker"
)

// maxFetch is how long fetches may take in tests.
const maxFetch = time.Minute

// startFleet joins workers to a fleet and waits until all are up.
func startFleet(t *testing.T, urls ...string) *fleet.Fleet {
	t.Helper()
	return startFleetWith(t, route.Config{FetchTime: maxFetch, FetchGain: 1e6}, urls...)
}

func startFleetWith(t *testing.T, cfg route.Config, urls ...string) *fleet.Fleet {
	t.Helper()
	return startFleetOf(t, fleet.Config{Route: cfg}, urls...)
}

// startFleetOf sets what all fleets of tests have in common. Workers join the pools in turn.
func startFleetOf(t *testing.T, cfg fleet.Config, urls ...string) *fleet.Fleet {
	t.Helper()
	return startFleetChanged(t, cfg, func(*fleet.Member) {}, urls...)
}

// startFleetChanged has each member changed before it joins.
func startFleetChanged(t *testing.T, cfg fleet.Config, change func(*fleet.Member), urls ...string) *fleet.Fleet {
	t.Helper()
	cfg.Models = []parley.Model{{ID: "polly-mini", ContextTokens: 2048}}
	if len(cfg.Pools) == 0 {
		cfg.Pools = []fleet.Pool{fleet.DefaultPool()}
	}
	cfg.SlowStart, cfg.StallMax, cfg.ProbeWait = -1, -1, time.Minute
	f, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, url := range urls {
		dialer := fleet.Dialer{Pool: cfg.Pools[i%len(cfg.Pools)].Name, ParleyKey: transferKey}
		m, err := dialer.Connect(t.Context(), discover.Address{Name: fmt.Sprint("w", i), URL: url})
		if err != nil {
			t.Fatal(err)
		}
		change(&m)
		if err := f.Join(m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range urls {
		awaitStanding(t, f, fmt.Sprint("w", i), func(s *fleet.Standing) bool { return s.State == fleet.Up })
	}
	return f
}

// awaitStanding waits until a worker stands as wanted.
func awaitStanding(t *testing.T, f *fleet.Fleet, name string, wanted func(*fleet.Standing) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		all := f.Standings()
		if i := slices.IndexFunc(all, func(s fleet.Standing) bool { return s.Name == name }); wanted(&all[i]) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come to stand as wanted: %+v", name, all)
		}
	}
}

// Of a prompt that was sent to a worker, the fleet expects the full blocks to be there. Tests
// that want them to be known for certain wait until it knows of more.

// TestASessionIsFetchedFromItsWorker drains the worker that holds a conversation: the
// next turn goes to the other one, which fetches the blocks and gives the same answer.
func TestASessionIsFetchedFromItsWorker(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	a, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
	b, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
	f := startFleet(t, urlA, urlB)
	r := transferPrompt(t, a)
	first, u, _ := askTransfer(t, f, r)
	holder, other := a, "w1"
	if u.Routing.Worker == "w1" {
		holder, other = b, "w0"
	}
	full := len(r.Prompt) / compute.BlockTokens
	awaitStanding(t, f, u.Routing.Worker, func(s *fleet.Standing) bool { return s.Blocks > full })
	if err := f.Drain(u.Routing.Worker, -1); err != nil {
		t.Fatal(err)
	}
	next := *r
	next.Prompt = slices.Concat(r.Prompt, first, r.Prompt[:20])
	want, _, _ := askTransfer(t, holder, &next)
	attempts := &parley.AttemptLog{}
	var got []parley.Token
	for d, err := range f.Generate(parley.WithAttemptLog(t.Context(), attempts), &next) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Transfer != nil {
			t.Error("what is for the record alone was passed on")
		}
		got = append(got, d.Tokens...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	all, _ := attempts.Attempts()
	if len(all) != 1 || all[0].Worker != other || all[0].Transfer == nil || all[0].Transfer.Miss != "" ||
		all[0].Transfer.From != u.Routing.Worker || all[0].Transfer.CameTokens < full*compute.BlockTokens ||
		all[0].Usage.CachedTokens < full*compute.BlockTokens {
		t.Errorf("%+v, %+v", all, all[0].Transfer)
	}
	sound(t, a, b)
}

// TestWorkersLearnFromOthers gives a worker what another one has observed, and bytes that are not
// that: it answers with what it has observed itself.
func TestWorkersLearnFromOthers(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	a, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
	b, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
	first := dialWorker(t, worker.Config{URL: urlA, Kind: worker.Parley, Key: transferKey})
	second := dialWorker(t, worker.Config{URL: urlB, Kind: worker.Parley, Key: transferKey})
	nothing, err := second.LearnFrom(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := transferPrompt(t, a)
	askTransfer(t, first, r)
	sound(t, a, b)
	observed, err := first.LearnFrom(t.Context(), [][]byte{[]byte("something else"), nothing})
	if err != nil || slices.Equal(observed, nothing) || new(kv.Reuse).UnmarshalBinary(observed) != nil {
		t.Fatalf("%d bytes are observed: %v", len(observed), err)
	}
	if own, err := second.LearnFrom(t.Context(), [][]byte{observed}); err != nil || !slices.Equal(own, nothing) {
		t.Errorf("a worker gives what others have observed as its own: %v", err)
	}
	stranger := dialWorker(t, worker.Config{URL: urlA, Kind: worker.Parley, Key: "another"})
	if _, err := stranger.LearnFrom(t.Context(), nil); parley.CodeOf(err) != parley.Unauthenticated {
		t.Errorf("without the key: %v", err)
	}
}

// TestAnAnswerMovesWithItsBlocks drains a worker in the middle of an answer: the other one
// resumes it with the blocks of the first, and the client sees one answer.
func TestAnAnswerMovesWithItsBlocks(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	a, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
	b, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
	f := startFleet(t, urlA, urlB)
	r := transferPrompt(t, a)
	r.MaxTokens = 300
	r.Sampling = parley.Sampling{Temperature: 0.8, Seed: 5}
	reference := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", ContextTokens: 2048})
	want := answer(t, reference, r)
	attempts := &parley.AttemptLog{}
	next, stop := iter.Pull2(f.Generate(parley.WithAttemptLog(context.WithoutCancel(t.Context()), attempts), r))
	defer stop()
	var got []parley.Token
	at := ""
	for {
		d, err, more := next()
		if !more {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Routing != nil {
			at = d.Routing.Worker
		}
		before := len(got)
		if got = append(got, d.Tokens...); before < 40 && len(got) >= 40 { // the engine waits until more is read
			full := len(r.Prompt) / compute.BlockTokens
			awaitStanding(t, f, at, func(s *fleet.Standing) bool { return s.Blocks > full })
			if err := f.Drain(at, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	all, _ := attempts.Attempts()
	if len(all) != 2 || all[0].End != "moved" || all[1].Transfer == nil || all[1].Transfer.From != all[0].Worker ||
		all[1].Transfer.CameTokens == 0 {
		t.Errorf("%+v", all)
	}
	sound(t, a, b)
}

// askFleet returns an answer and who was asked for it.
func askFleet(t *testing.T, f *fleet.Fleet, r *parley.Request) (tokens []parley.Token, u parley.Usage,
	all []parley.Attempt) {
	t.Helper()
	log := &parley.AttemptLog{}
	for d, err := range f.Generate(parley.WithAttemptLog(t.Context(), log), r) {
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, d.Tokens...)
		if d.Usage != nil {
			u = *d.Usage
		}
	}
	all, _ = log.Attempts()
	return tokens, u, all
}

// TestPrefillAndDecodeApart has one worker compute prompts and another write the answers,
// over all types of the pool, greedily and with a seed: the tokens are those of one worker
// that does both.
func TestPrefillAndDecodeApart(t *testing.T) {
	for kind := range compute.KVType(compute.KVTypes) {
		t.Run(kind.String(), func(t *testing.T) {
			model := Config{KVTokens: 8192, ContextTokens: 2048, KVType: kind}
			a, urlA := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RolePrefill}, model)
			b, urlB := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RoleDecode}, model)
			f := startFleet(t, urlA, urlB)
			reference := startHost(t, openBuiltin(t, "polly-mini"),
				Config{Name: "polly-mini", ContextTokens: 2048, KVType: kind})
			for seed := range uint64(3) {
				r := transferPrompt(t, a)
				r.Prompt = slices.Concat(r.Prompt[seed:], r.Prompt)
				if seed > 0 {
					r.Sampling = parley.Sampling{Temperature: 0.9, Seed: seed}
				}
				want := answer(t, reference, r)
				got, u, all := askFleet(t, f, r)
				if !slices.Equal(got, want) {
					t.Errorf("seed %d: %v, want %v", seed, got, want)
				}
				if u.OutputTokens != len(want) || u.PromptTokens != len(r.Prompt) {
					t.Errorf("seed %d: %+v", seed, u)
				}
				if seed > 0 { // how fast the link is was measured, and may speak against it
					continue
				}
				if len(all) != 2 || all[0].Worker != "w0" || all[1].Worker != "w1" || all[1].Transfer == nil ||
					all[1].Transfer.Miss != "" || all[1].Usage.CachedTokens < len(r.Prompt)-compute.BlockTokens ||
					all[0].Tokens != 0 {
					t.Errorf("%+v", all)
				}
				if u.CachedTokens != 0 { // in the fleet it was not
					t.Errorf("%d tokens are said to have been cached", u.CachedTokens)
				}
			}
			sound(t, a, b)
		})
	}
}

// TestRolesTakeOver takes out the worker of one role and then that of the other: the one
// that is left answers alone. With a prefill worker that dies, the other one answers, too.
func TestRolesTakeOver(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	a, urlA := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RolePrefill}, model)
	b, urlB := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RoleDecode}, model)
	f := startFleet(t, urlA, urlB)
	r := transferPrompt(t, a)
	r.Prompt = slices.Concat(r.Prompt, r.Prompt)
	reference := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", ContextTokens: 2048})
	want := answer(t, reference, r)
	for away, alone := range map[string]string{"w0": "w1", "w1": "w0"} {
		r.Salt[0]++ // so that nothing is cached
		if err := f.Drain(away, -1); err != nil {
			t.Fatal(err)
		}
		got, _, all := askFleet(t, f, r)
		if !slices.Equal(got, want) || len(all) != 1 || all[0].Worker != alone {
			t.Errorf("without %s: %v, want %v; %+v", away, got, want, all)
		}
		if err := f.Resume(away); err != nil {
			t.Fatal(err)
		}
	}
	r.Salt[0]++
	a.Drain() // it refuses requests, which the gateway does not know yet
	got, _, all := askFleet(t, f, r)
	if last := all[len(all)-1]; !slices.Equal(got, want) || last.Worker != "w1" || last.End != "done" {
		t.Errorf("%v, want %v; %+v", got, want, all)
	}
	sound(t, a, b)
}
