package fleet

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// A sleepy worker can be put to sleep, and takes a second to wake.
type sleepy struct {
	*frail
	asleep atomic.Bool
	woken  atomic.Int64
	fails  atomic.Bool // to wake
}

var errAsleep = parley.Errorf(parley.Unavailable, "asleep")

func (s *sleepy) member(name string) Member {
	m := joiner(name, s.frail)
	m.Probe = func(context.Context) (Condition, error) { return Condition{Sleeping: s.asleep.Load()}, nil }
	m.Sleep = func(context.Context) error {
		if n := s.active.Load(); n > 0 {
			return errors.New("it is put to sleep with answers under way")
		}
		s.asleep.Store(true)
		s.set(errAsleep, 0)
		return nil
	}
	m.Wake = func(ctx context.Context) error {
		s.woken.Add(1)
		if !sleep(ctx, time.Second) || s.fails.Load() {
			return errors.New("no memory")
		}
		s.asleep.Store(false)
		s.set(nil, 0)
		return nil
	}
	return m
}

func (f *Fleet) stateOf(name string) State {
	for _, s := range f.Standings() {
		if s.Name == name {
			return s.State
		}
	}
	return ""
}

// TestAsleep puts one of two workers to sleep while both answer: its answers
// finish or move, the other one gets what comes, and nobody is woken for it.
func TestAsleep(t *testing.T) {
	for _, within := range []time.Duration{-1, 10 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			a, b := &sleepy{frail: newFrail(newOracle(t, time.Millisecond))}, &sleepy{frail: newFrail(
				newOracle(t, time.Millisecond))}
			f := newFleet(t, Config{}, a.member("a"), b.member("b"))
			time.Sleep(2 * time.Second)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if _, err := hear(t.Context(), f, ask(100)); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(20 * time.Millisecond)
			if err := f.Sleep("a", within); err != nil {
				t.Fatal(err)
			}
			if s := f.stateOf("a"); s != Draining {
				t.Errorf("one that is to sleep is %s", s)
			}
			wg.Wait()
			time.Sleep(3 * time.Second)
			if s := f.stateOf("a"); s != Asleep || f.Ready(modelID, f.cfg.Pools[0].Name) != 1 {
				t.Errorf("it is %s, %d are ready", s, f.Ready(modelID, f.cfg.Pools[0].Name))
			}
			was := a.asked.Load()
			for range 4 {
				if _, err := hear(t.Context(), f, ask(8)); err != nil {
					t.Error(err)
				}
			}
			if a.asked.Load() != was || a.woken.Load() != 0 {
				t.Error("one that sleeps was disturbed although another one is up")
			}
			if err := f.Wake("a"); err != nil {
				t.Fatal(err)
			}
			if s := f.stateOf("a"); s != Waking {
				t.Errorf("one that is woken is %s", s)
			}
			time.Sleep(3 * time.Second)
			if s := f.stateOf("a"); s != Up || f.Ready(modelID, f.cfg.Pools[0].Name) != 2 {
				t.Errorf("one that was woken is %s, %d are ready", s, f.Ready(modelID, f.cfg.Pools[0].Name))
			}
		})
	}
}

// TestWokenOnDemand sends requests for a model whose only worker sleeps: they
// wait for it, it is woken once for all of them, and again later if it could
// not be.
func TestWokenOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &sleepy{frail: newFrail(newOracle(t, time.Millisecond))}
		f := newFleet(t, Config{}, a.member("a"))
		time.Sleep(time.Second)
		fallAsleep := func() {
			if err := f.Sleep("a", -1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if s := f.stateOf("a"); s != Asleep || f.Ready(modelID, f.cfg.Pools[0].Name) != 1 {
				t.Fatalf("it is %s, %d are ready", s, f.Ready(modelID, f.cfg.Pools[0].Name))
			}
		}
		fallAsleep()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := hear(t.Context(), f, ask(8)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := a.woken.Load(); n != 1 {
			t.Errorf("it was woken %d times for one rush", n)
		}
		fallAsleep()
		a.fails.Store(true)
		time.AfterFunc(5*time.Second, func() { a.fails.Store(false) })
		if _, err := hear(t.Context(), f, ask(8)); err != nil {
			t.Errorf("after a waking that failed: %v", err)
		}
		if n := a.woken.Load(); n != 3 {
			t.Errorf("it was woken %d times, the second time in vain", n)
		}
	})
}

// TestDrainedSleepersStay leaves one asleep that its operator keeps from work,
// and says why nobody can answer.
func TestDrainedSleepersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &sleepy{frail: newFrail(newOracle(t, time.Millisecond))}
		f := newFleet(t, Config{}, a.member("a"))
		time.Sleep(time.Second)
		for _, err := range []error{f.Sleep("a", 0), f.Drain("a", -1)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if _, err := hear(t.Context(), f, ask(8)); parley.CodeOf(err) != parley.Unavailable || a.woken.Load() > 0 {
			t.Errorf("woken %d times: %v", a.woken.Load(), err)
		}
	})
}

// TestTellingWorkers goes through the routes of operators.
func TestTellingWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &sleepy{frail: newFrail(newOracle(t, time.Millisecond))}
		plain := joiner("plain", newFrail(newOracle(t, time.Millisecond)))
		plain.Kind = "llamacpp"
		f := newFleet(t, Config{}, a.member("a"), plain)
		time.Sleep(time.Second)
		admin := Admin{Fleet: f}.Handler()
		for _, row := range []struct {
			path   string
			status int
			text   string
		}{
			{"a/sleep?within=soon", 400, "such as 30s"},
			{"b/sleep", 404, "There is no worker b: parley fleet status lists them."},
			{"plain/sleep", 409, "of kind llamacpp does not support sleep"},
			{"plain/wake", 409, "does not support sleep"},
			{"a/sleep", 200, `"state":"draining"`},
			{"a/drain", 200, `"state":"asleep"`},
			{"a/wake", 200, `"state":"waking"`},
			{"a/sleep", 409, "is waking"},
			{"a/resume", 200, `"sleeps":true`},
		} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/fleet/workers/"+row.path, nil)
			admin.ServeHTTP(w, r)
			if w.Code != row.status || !strings.Contains(w.Body.String(), row.text) {
				t.Errorf("%s gives %d: %s", row.path, w.Code, w.Body)
			}
			synctest.Wait()
		}
	})
}

// TestRoomIsLearntAfterWaking has a worker join asleep, when it cannot say how much it
// holds: what its probes say once it is awake counts.
func TestRoomIsLearntAfterWaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const holds = 64
		a := &sleepy{frail: newFrail(newOracle(t, time.Millisecond))}
		a.asleep.Store(true)
		m := a.member("a")
		m.CapacityTokens = 0
		m.Probe = func(context.Context) (Condition, error) {
			if a.asleep.Load() {
				return Condition{Sleeping: true}, nil
			}
			return Condition{CapacityTokens: holds}, nil
		}
		f := newFleet(t, Config{}, m)
		time.Sleep(time.Second)
		if _, err := hear(t.Context(), f, ask(8)); err != nil || a.woken.Load() != 1 {
			t.Fatalf("woken %d times: %v", a.woken.Load(), err)
		}
		time.Sleep(2 * time.Second)
		was := a.asked.Load()
		if _, err := hear(t.Context(), f, ask(holds)); parley.CodeOf(err) != parley.ContextTooLong ||
			a.asked.Load() != was {
			t.Errorf("what does not fit was sent to it %d times: %v", a.asked.Load()-was, err)
		}
		if _, err := hear(t.Context(), f, ask(8)); err != nil {
			t.Errorf("what fits: %v", err)
		}
	})
}
