package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/queue"
)

// TestUnluckyRequestsGoOn has workers die one after the other, each sooner than it
// can write a token, with a request or without it: when they live again it is
// answered, although more were lost with it than a request may lose that kills them.
func TestUnluckyRequestsGoOn(t *testing.T) {
	for _, hedge := range []time.Duration{0, 10 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var workers []*frail
			var members []Member
			for i := range 3 {
				workers = append(workers, newFrail(newOracle(t, 100*time.Millisecond)))
				members = append(members, joiner(fmt.Sprint("w", i), workers[i]))
			}
			f := newFleet(t, Config{ProbeEvery: 5 * time.Millisecond, SlowStart: -1, Losses: 8, HedgeAfter: hedge},
				members...)
			synctest.Wait()
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			go func() {
				for i := 0; sleep(ctx, 30*time.Millisecond); i++ {
					workers[i%3].kill()
					sleep(t.Context(), 10*time.Millisecond)
					workers[i%3].revive()
				}
			}()
			want, _ := hear(t.Context(), newOracle(t, 0), ask(10))
			got, err := hear(t.Context(), f, ask(10))
			if err != nil || !reflect.DeepEqual(gather(ask(10), got), gather(ask(10), want)) {
				t.Fatalf("hedged after %v: %v", hedge, err)
			}
			if moves := got[len(got)-1].Usage.Routing.Moves; moves < 4 { // one that kills is given up at the third
				t.Errorf("hedged after %v: it lost %d workers, which anything may", hedge, moves)
			}
		})
	}
}

// TestHedgedRequestsThatKillAreGivenUp has a request kill every worker that gets it,
// two at a time: that both are lost does not speak for it.
func TestHedgedRequestsThatKillAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := two(t, Config{Losses: 8, HedgeAfter: 10 * time.Millisecond})
		for _, x := range w {
			x.set(errReset, 0)
		}
		_, err := hear(t.Context(), f, ask(5))
		if parley.CodeOf(err) != parley.Unavailable || !strings.Contains(err.Error(), "not retried") {
			t.Error(err)
		}
		if n := w[0].asked.Load() + w[1].asked.Load(); n > 8 {
			t.Errorf("it was sent %d times", n)
		}
	})
}

// TestOrdeals: what is lost without a request speaks for it, and not for ever.
func TestOrdeals(t *testing.T) {
	killer := poisonCheck{from: 5}
	for n := range uint64(3) {
		if killer.exceeded(8) {
			t.Errorf("given up after %d", n)
		}
		killer.add(blameAlone, 6+n)
	}
	if !killer.exceeded(8) {
		t.Error("it killed three workers alone and goes on")
	}
	var unlucky poisonCheck
	n := 0
	for ; !unlucky.exceeded(8); n++ {
		unlucky.add(blameAlone, uint64(2*n+2))
	}
	if n != poisonLossFactor*8+1 {
		t.Errorf("one that is unlucky is given up after %d", n)
	}
	if unlucky.reset(); unlucky.exceeded(8) {
		t.Error("a token does not end it")
	}
}

// TestBlameIsSharedByAllThatWereThere: answers that are cut one after the other were
// together when their worker died, so none was alone, not even the last. A worker that
// came back has forgotten them, and one without probes is never known to be down: there
// it counts who is left.
func TestBlameIsSharedByAllThatWereThere(t *testing.T) {
	f := &Fleet{cfg: Config{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}
	cutAll := func(m *member, answers int) (blames []int) {
		m.attempts = map[*attempt]struct{}{}
		for range answers {
			m.attempts[&attempt{}] = struct{}{}
		}
		for l := range m.attempts {
			delete(m.attempts, l)
			blames = append(blames, f.suspect(m, errLost))
		}
		return blames
	}
	probed := &member{breaker: queue.NewBreaker(queue.BreakerConfig{}), kick: make(chan struct{}, 1)}
	probed.Probe = func(context.Context) (Condition, error) { return Condition{}, nil }
	for _, row := range []struct {
		answers int
		want    []int
	}{{3, []int{1, 1, 1}}, {1, []int{blameAlone}}, {2, []int{1, 1}}} {
		probed.health.state = Up
		deaths := f.deaths.Load()
		if got := cutAll(probed, row.answers); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%d answers are blamed %v, want %v", row.answers, got, row.want)
		}
		if probed.health.state != Down || f.deaths.Load() != deaths+1 {
			t.Errorf("the worker is %v after %d deaths", probed.health.state, f.deaths.Load()-deaths)
		}
	}
	silent := &member{health: health{state: Up}, breaker: queue.NewBreaker(queue.BreakerConfig{})}
	if got, want := cutAll(silent, 2), []int{1, blameAlone}; !reflect.DeepEqual(got, want) {
		t.Errorf("without probes they are blamed %v, want %v", got, want)
	}
}
