package fleet

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"parley/route/kvindex"
)

// TestSilenceEndsWithItsAnswer has the timer look while the answer ends: it does not
// look again, for ever.
func TestSilenceEndsWithItsAnswer(t *testing.T) {
	s := &stallTimer{most: time.Hour, cancel: func(error) {}}
	s.arm()
	s.stop()
	s.check() // it had begun to before
	if s.timer.Stop() {
		t.Error("it still looks")
	}
}

// TestAProbeFromBeforeALossIsNotBelieved kills a worker that is just answering a
// probe. The answer comes after the loss, and does not make the worker one that gets
// work.
func TestAProbeFromBeforeALossIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFrail(newOracle(t, time.Millisecond))
		m := joiner("a", w)
		m.Probe = func(ctx context.Context) (Condition, error) {
			c, err := w.probe(ctx)
			sleep(ctx, time.Second) // on its way
			return c, err
		}
		f := newFleet(t, Config{WaitMax: 10 * time.Second}, m)
		time.Sleep(2500 * time.Millisecond) // the second probe is under way
		failed := make(chan error)
		go func() {
			_, err := hear(t.Context(), f, ask(1000))
			failed <- err
		}()
		time.Sleep(100 * time.Millisecond)
		w.kill()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			if state := f.stateOf("a"); state != Down {
				t.Fatalf("a dead worker is %s", state)
			}
		}
		w.revive()
		if err := <-failed; err != nil {
			t.Error(err)
		}
	})
}

// TestEventsOfAWorkerThatLeft come after another one has its place. They are not
// taken for that one's.
func TestEventsOfAWorkerThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var old, beside, successor *Feed
		member := func(name string, feed **Feed) Member {
			m := joiner(name, newFrail(newOracle(t, time.Millisecond)))
			m.Source = kvindex.Source{Events: true, Replay: true, Snapshot: true}
			m.Follow = func(ctx context.Context, to *Feed) error { *feed = to; <-ctx.Done(); return ctx.Err() }
			return m
		}
		f := newFleet(t, Config{}, member("old", &old), member("beside", &beside))
		synctest.Wait()
		if err := errors.Join(f.Leave("old"), f.Join(member("new", &successor))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		batch := kvindex.Batch{Seq: 1000,
			Events: []kvindex.Event{{Engine: []uint64{1}, First: true, Tokens: ask(1).Prompt, BlockTokens: 16}}}
		old.Reconnected()
		for _, asked := range []kvindex.Ask{old.Apply(batch), old.ReplayEnded(), old.Wants(),
			old.Restore(1000, func(func(kvindex.Event) bool) {})} {
			if asked != (kvindex.Ask{}) {
				t.Errorf("a worker that left is asked for %s", asked)
			}
		}
		if got := successor.Apply(kvindex.Batch{}); got != (kvindex.Ask{}) {
			t.Errorf("its successor is asked for %s", got)
		}
		if s := f.Standings()[1]; s.Index != "exact" || s.Gaps != 0 {
			t.Errorf("its successor is known so: %+v", s)
		}
	})
}

// TestDrainedAgain drains a worker, takes that back, and drains it with more time:
// that is the time its answers have.
func TestDrainedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := two(t, Config{})
		moves := make(chan int)
		go func() {
			got, err := hear(t.Context(), f, ask(200))
			if err != nil {
				t.Error(err)
				moves <- 0
				return
			}
			moves <- got[len(got)-1].Usage.Routing.Moves
		}()
		time.Sleep(10 * time.Millisecond)
		for _, name := range []string{"a", "b"} {
			if err := errors.Join(f.Drain(name, 50*time.Millisecond), f.Resume(name),
				f.Drain(name, time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		if n := <-moves; n != 0 {
			t.Errorf("the answer moved %d times", n)
		}
	})
}

// TestSilenceOfAGatewayThatWasStopped is not the worker's: what came meanwhile is
// read first. A worker that is silent then, too, is left.
func TestSilenceOfAGatewayThatWasStopped(t *testing.T) {
	var left error
	s := &stallTimer{most: time.Hour, cancel: func(why error) { left = why }}
	s.arm()
	defer s.stop()
	s.born, s.due = s.born.Add(-2*time.Hour), s.due.Add(-2*time.Hour)
	if s.check(); left != nil {
		t.Errorf("left at once: %v", left)
	}
	if s.check(); !errors.Is(left, errStalled) {
		t.Errorf("not left after another look: %v", left)
	}
}
