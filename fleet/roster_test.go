package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/fleet/discover"
	"parley/worker"
)

// TestPopulate has a source tell of workers that come late, change their address
// and go.
func TestPopulate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		updates := make(chan []discover.Address)
		var away atomic.Bool
		var closed atomic.Int64
		away.Store(true)
		oracle := newOracle(t, time.Millisecond)
		connect := func(_ context.Context, at discover.Address) (Member, error) {
			if away.Load() {
				return Member{}, errors.New("not yet")
			}
			m := joiner(at.Name, newFrail(oracle))
			m.Kind = at.URL
			m.Close = func() error { closed.Add(1); return nil }
			return m, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { f.Populate(ctx, "default", reports(updates), connect) })
		is := func(want string) {
			t.Helper()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			var got []string
			for _, s := range f.Standings() {
				got = append(got, s.Name+"@"+cmp.Or(s.Kind, string(s.State)))
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("the fleet is %q, want %q", text, want)
			}
		}
		updates <- []discover.Address{{Name: "a", URL: "1"}, {Name: "b", URL: "2"}}
		is("a@absent b@absent")
		away.Store(false)
		is("a@1 b@2")
		updates <- []discover.Address{{Name: "b", URL: "3"}, {Name: "c", URL: "4"}}
		is("b@3 c@4")
		cancel()
		done.Wait()
		is("")
		if closed.Load() != 4 {
			t.Errorf("%d of 4 were closed", closed.Load())
		}
	})
}

// reports is a source that reports each update.
func reports(updates <-chan []discover.Address) discover.Source {
	return func(ctx context.Context, tell func([]discover.Address)) {
		for {
			select {
			case places := <-updates:
				tell(places)
			case <-ctx.Done():
				return
			}
		}
	}
}

// TestReasonsForNotJoining wants each reason logged once, as long as it is the same.
func TestReasonsForNotJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := newFleet(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		why := []string{"connection refused", "connection refused", "connection refused", "no model of this server"}
		connect := func(context.Context, discover.Address) (Member, error) {
			reason := why[0]
			if len(why) > 1 {
				why = why[1:]
			}
			return Member{}, errors.New(reason)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f.Populate(ctx, "default", func(ctx context.Context, tell func([]discover.Address)) {
			tell([]discover.Address{{Name: "a", URL: "1"}})
			<-ctx.Done()
		}, connect)
		if said := log.String(); strings.Count(said, "connection refused") != 1 ||
			strings.Count(said, "no model of this server") != 1 {
			t.Errorf("the log is\n%s", said)
		}
	})
}

// TestRefusedJoins has one worker that serves another model and one that rejects the key: both are listed as absent,
// with the reason, in the pool that they were to join, until they can join or are no longer known.
func TestRefusedJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		oracle := newOracle(t, time.Millisecond)
		var agrees atomic.Bool
		updates := make(chan []discover.Address)
		connect := func(_ context.Context, at discover.Address) (Member, error) {
			if at.Name == "locked" {
				return Member{}, &worker.KeyError{Err: parley.Errorf(parley.Unavailable, "it rejects the key")}
			}
			m := joiner(at.Name, newFrail(oracle))
			if !agrees.Load() {
				m.Worker = others{m.Worker}
			}
			return m, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { f.Populate(ctx, "default", reports(updates), connect) })
		is := func(want ...string) {
			t.Helper()
			time.Sleep(6 * time.Second)
			synctest.Wait()
			var got []string
			for _, s := range f.Standings() {
				got = append(got, fmt.Sprintf("%s %s %s %q", s.Pool, s.Name, s.State, s.Trouble))
			}
			if !slices.Equal(got, want) {
				t.Errorf("the fleet is %q, want %q", got, want)
			}
		}
		const locked = `default locked absent "it rejects the key"`
		updates <- []discover.Address{{Name: "locked", URL: "1", Kind: "vllm"}, {Name: "other", URL: "2"}}
		is(locked, `default other absent "it serves another, which is not a model of this server: `+
			"map the names with `models: {OURS: THEIRS}`\"")
		const told = "(pool 'default': no worker has joined, 2 absent)"
		if said := f.NoWorkers(ask(1)).Error(); !strings.Contains(said, told) {
			t.Errorf("a client is told: %s", said)
		}
		agrees.Store(true)
		is(locked, `default other up ""`)
		updates <- []discover.Address{{Name: "other", URL: "2"}}
		is(`default other up ""`)
		cancel()
		done.Wait()
	})
}

// others is a worker with a model of another name.
type others struct{ parley.Worker }

func (others) Models() []parley.Model { return []parley.Model{{ID: "another", ContextTokens: 64}} }

// TestAdmin looks at the fleet and drains a worker, and tells the operate token from
// others.
func TestAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := two(t, Config{})
		admin := Admin{Fleet: f, Token: "0123456789abcdef"}
		for _, row := range []struct {
			method, path string
			code         int
			state        State
		}{
			{"GET", "/fleet/workers", 200, Up},
			{"POST", "/fleet/workers/a/drain?within=soon", 400, ""},
			{"POST", "/fleet/workers/a/drain", 200, Draining},
			{"POST", "/fleet/workers/a/resume", 200, Up},
			{"POST", "/fleet/workers/z/drain", 404, ""},
		} {
			w := httptest.NewRecorder()
			admin.Handler().ServeHTTP(w, httptest.NewRequest(row.method, row.path, strings.NewReader("{}")))
			var list struct{ Data []Standing }
			_ = json.Unmarshal(w.Body.Bytes(), &list) // not all are lists
			if w.Code != row.code || row.state != "" && (len(list.Data) != 2 || list.Data[0].State != row.state) {
				t.Errorf("%+v: %d, %+v", row, w.Code, list.Data)
			}
		}
		for secret, want := range map[string]bool{"0123456789abcdef": true, "": false, "wrong": false,
			"0123456789abcdef0": false} {
			if got := admin.MayOperate(secret); got != want {
				t.Errorf("%q may operate: %v", secret, got)
			}
		}
		if (Admin{Fleet: f}).MayOperate("") {
			t.Error("without a token the empty secret may operate")
		}
	})
}

// TestReplaysArePaced spends more than useful work has earned: moves wait, and
// none is refused.
func TestReplaysArePaced(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget(1, 1000)
	if wait := b.spend(1000, now); wait != 0 {
		t.Errorf("the first ones wait %v", wait)
	}
	first, second := b.spend(512, now), b.spend(512, now)
	if first <= 0 || second <= first || second > delayMost {
		t.Errorf("they wait %v and %v", first, second)
	}
	for range 10 {
		now = now.Add(time.Second)
		b.earn(1000, now)
	}
	if wait := b.spend(500, now); wait != 0 {
		t.Errorf("after useful work they wait %v", wait)
	}
}

// TestWorkersThatRejectTheKey has a worker answer probes and reject the key with every request: another one answers,
// the operator is told why, and it gets requests again half a minute later.
func TestWorkersThatRejectTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		locked := newFrail(newOracle(t, time.Millisecond))
		locked.set(&worker.KeyError{Err: parley.Errorf(parley.Unavailable, "no key is sent to it")}, 0)
		f := newFleet(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil))}, joiner("locked", locked),
			joiner("open", newFrail(newOracle(t, time.Millisecond))))
		time.Sleep(time.Second)
		for range 20 {
			if _, err := hear(t.Context(), f, ask(8)); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		if s := f.Standings()[0]; s.State != Down || s.Trouble != "no key is sent to it" || locked.asked.Load() != 1 {
			t.Errorf("after %d requests it is %+v", locked.asked.Load(), s)
		}
		if said := log.String(); strings.Count(said, "worker down: it rejects the key") != 1 {
			t.Errorf("the log is\n%s", said)
		}
		locked.set(nil, 0)
		time.Sleep(keyRetry)
		if s := f.Standings()[0]; s.State != Up || s.Trouble != "" {
			t.Errorf("with another key it is %+v", s)
		}
	})
}
