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
	"parley/fleet"
	"parley/fleet/discover"
	"parley/route"
)

// startFleet joins workers to a fleet and waits until all are up.
func startFleet(t *testing.T, urls ...string) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(fleet.Config{
		Models:    []parley.Model{{ID: "polly-mini", ContextTokens: 2048}},
		Pools:     []fleet.Pool{fleet.DefaultPool()},
		SlowStart: -1,
		StallMax:  -1,
		ProbeWait: time.Minute,
		Route:     route.Config{FetchTime: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, url := range urls {
		dialer := fleet.Dialer{Pool: "default", ParleyKey: transferKey}
		m, err := dialer.Connect(t.Context(), discover.Address{Name: fmt.Sprint("w", i), URL: url})
		if err != nil {
			t.Fatal(err)
		}
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
	awaitStanding(t, f, u.Routing.Worker, func(s *fleet.Standing) bool { return s.Blocks >= full })
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
			awaitStanding(t, f, at, func(s *fleet.Standing) bool { return s.Blocks >= full })
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
