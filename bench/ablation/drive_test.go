package ablation

import (
	"context"
	"errors"
	"testing"
	"time"

	"parley/engine/sched"
	"parley/worker/host"
)

// working puts the smallest built-in model to work.
func working(t *testing.T, cfg host.Config) *host.Host {
	t.Helper()
	l := &lab{}
	h, err := l.start(pollyMini, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestAskNotesEveryToken(t *testing.T) {
	h := working(t, host.Config{KVTokens: 1024})
	whole, err := ask(t.Context(), h, plain(fresh(1, 20), 30), nil)
	if err != nil || len(whole.came) != 30 || whole.first() <= 0 ||
		len(whole.gapsAfter(whole.sent)) != 29 {
		t.Errorf("%d tokens, %v", len(whole.came), err)
	}
	if left := whole.gapsAfter(whole.came[9]); len(left) > 20 {
		t.Errorf("%d gaps after the tenth token of 30", len(left))
	}
	part, err := ask(t.Context(), h, plain(fresh(1, 20), 30), func(token int) bool { return token < 5 })
	if err != nil || len(part.came) != 5 {
		t.Errorf("%d tokens of 5, %v", len(part.came), err)
	}
	if _, err := ask(t.Context(), h, plain(nil, 30), nil); err == nil {
		t.Error("an empty prompt was answered")
	}
}

func TestAskKeepsWhatCameBeforeTheEnd(t *testing.T) {
	h := working(t, host.Config{KVTokens: 2048})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, err := ask(ctx, h, plain(fresh(1, 20), 0), func(token int) bool {
		if token == 3 {
			cancel()
		}
		return true
	})
	if err != nil || len(a.came) < 3 {
		t.Errorf("%d tokens, %v", len(a.came), err)
	}
	if _, err := ask(ctx, h, plain(fresh(1, 20), 5), nil); err == nil {
		t.Error("an answer that ended before its first token is no error")
	}
	if err := waitIdle(t.Context(), h); err != nil {
		t.Error(err)
	}
}

// A batch of eight whose answers have 2 and 40 tokens keeps its seats until the
// last has ended; the wanted tokens are the same, padded or not.
func TestBatchesRunOneAfterTheOther(t *testing.T) {
	h := working(t, host.Config{KVTokens: 4096, Seqs: batchSeats, Baseline: sched.Baseline{StaticBatches: true},
		NoSpeculation: true})
	answers := make([]int, 2*batchSeats)
	for i := range answers {
		answers[i] = 2 + 38*(i%2)
	}
	before := h.Stats().StepTokens
	if rate, err := inBatches(t.Context(), h, answers, false); err != nil || rate <= 0 {
		t.Fatalf("%g tokens/s, %v", rate, err)
	}
	between := h.Stats().StepTokens
	if rate, err := inBatches(t.Context(), h, answers, true); err != nil || rate <= 0 {
		t.Fatalf("%g tokens/s, %v", rate, err)
	}
	bare, padded := between-before, h.Stats().StepTokens-between
	if extra := padded - bare; extra != batchSeats*38 {
		t.Errorf("padding computed %d tokens more, want %d", extra, batchSeats*38)
	}
}

func TestJamCountsGapsOfStreamsAlone(t *testing.T) {
	h := working(t, host.Config{KVTokens: 4096, NoSpeculation: true})
	j := jam{streams: 3, prompt: 300, least: 50 * time.Millisecond, most: time.Minute}
	gaps, read, err := j.gaps(t.Context(), h, 0)
	if err != nil || len(gaps) == 0 || read == 0 {
		t.Errorf("%d gaps, %d prompts read, %v", len(gaps), read, err)
	}
	if running := h.Stats().Running; running != 0 {
		t.Errorf("%d requests still run", running)
	}
}

func TestRoundsAlternateAndStopAtAFault(t *testing.T) {
	l := &lab{}
	var order string
	mark := func(name string, value float64, err error) side {
		return func(context.Context, int) (float64, error) {
			order += name
			return value, err
		}
	}
	s, err := l.alternate(t.Context(), 3, mark("a", 1, nil), mark("b", 2, nil))
	if err != nil || order != "abbaab" || len(s.Off) != 3 || s.Off[2] != 1 || s.On[1] != 2 || l.done != 6 {
		t.Errorf("%q %+v %v, %d steps", order, s, err, l.done)
	}
	order = ""
	fault := errors.New("fault")
	if _, err := l.alternate(t.Context(), 3, mark("a", 1, nil), mark("b", 0, fault)); !errors.Is(err, fault) ||
		order != "ab" {
		t.Errorf("%q %v", order, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.alternate(ended, 1, mark("a", 1, nil), mark("b", 1, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestUsersLeaveWhenTheTimeIsUp(t *testing.T) {
	h := working(t, host.Config{KVTokens: 4096})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil && h.Stats().StepTokens == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := azureUser(ctx, h, 1); err != nil {
		t.Error(err)
	}
	if h.Stats().StepTokens == 0 {
		t.Error("nothing was asked")
	}
}
