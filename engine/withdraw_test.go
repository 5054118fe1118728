package engine

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/engine/sched"
)

// TestWithdrawing asks for requests back at every step of theirs, in an engine with one
// seat: one that has not begun ends as withdrawn and has no token; one that has is
// answered as if nothing had been asked.
func TestWithdrawing(t *testing.T) {
	var given, kept int
	for after := range 40 {
		synctest.Test(t, func(t *testing.T) {
			e := newCounter(t, &counter{period: 6, delay: time.Millisecond},
				sched.Config{Blocks: 100, StepTokens: 16, StepOutputs: 10, Seqs: 1})
			var wg sync.WaitGroup
			wg.Go(func() { listen(t, e, endless(1, 12)) })
			synctest.Wait()
			var w parley.Withdrawal
			r := endless(2, 12)
			wg.Go(func() {
				time.Sleep(time.Duration(after) * time.Millisecond)
				w.Ask()
				w.Ask()
			})
			var deltas []parley.Delta
			var code parley.Code
			for d, err := range e.Generate(parley.WithWithdrawal(t.Context(), &w), r) {
				if err != nil {
					code = parley.CodeOf(err)
					break
				}
				deltas = append(deltas, d)
			}
			wg.Wait()
			switch want := gather(r, listen(t, e, r)); {
			case code == parley.Withdrawn && len(deltas) == 0:
				given++
			case code == "" && reflect.DeepEqual(gather(r, deltas), want):
				kept++
			default:
				t.Errorf("asked for after %d ms: %d deltas, code %q", after, len(deltas), code)
			}
			synctest.Wait()
			if n := e.Stats().Running; n != 0 {
				t.Errorf("%d run", n)
			}
		})
	}
	if given < 5 || kept < 5 {
		t.Errorf("%d were given back and %d kept: this tests too little", given, kept)
	}
}

// TestWithdrawnBeforeItCame asks for a request back that was not sent yet.
func TestWithdrawnBeforeItCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{period: 6, delay: time.Millisecond},
			sched.Config{Blocks: 100, StepTokens: 16, StepOutputs: 10, Seqs: 1})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for range e.Generate(ctx, endless(1, 1000)) {
			}
		})
		synctest.Wait()
		var w parley.Withdrawal
		w.Ask()
		for _, err := range e.Generate(parley.WithWithdrawal(t.Context(), &w), endless(2, 12)) {
			if parley.CodeOf(err) != parley.Withdrawn {
				t.Errorf("got %v", err)
			}
		}
		stop()
		wg.Wait()
	})
}

func endless(n, tokens int) *parley.Request {
	return &parley.Request{Prompt: long(n, 20), MaxTokens: tokens, Stop: parley.Stop{IgnoreEnd: true}}
}
