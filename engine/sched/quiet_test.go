package sched

import (
	"encoding/json"
	"testing"
	"time"

	"parley"
)

// lonePrompt returns how much longer a prompt takes alone than in passes of
// StepTokens.
func lonePrompt(t *testing.T, v *virtual, prompt int) float64 {
	bare, computed := time.Duration(0), 0
	for computed < prompt {
		n := min(v.s.cfg.StepTokens, prompt-computed)
		bare += v.cost(Work{}.Add(n, computed))
		computed += n
	}
	q, took := v.add(parley.Free, "alone", prompt, 1), time.Duration(0)
	for len(q.Tokens) == prompt {
		took += v.pass()
	}
	for v.done[q] == 0 {
		v.pass()
	}
	return float64(took) / float64(bare)
}

// slow is a processor on which each pass reads all weights, for 60 ms.
func slow(w Work) time.Duration {
	rows, lookback := time.Duration(w.Rows), time.Duration(w.Lookback)
	return 60*time.Millisecond + rows*3*time.Millisecond + lookback*500*time.Nanosecond
}

// TestALonePromptIsNotCut computes prompts while no sequence writes, the first of
// them before anything was measured: no pass is cut to protect streams that do not
// exist.
func TestALonePromptIsNotCut(t *testing.T) {
	cfg := roomy
	cfg.StepTokens, cfg.Target = 512, 50*time.Millisecond
	v := newVirtual(t, cfg)
	v.cost = slow
	for _, prompt := range []int{512, 2048, 8000, 300, 8000, 40, 2048, 512} {
		if ratio := lonePrompt(t, v, prompt); ratio > 1.06 {
			t.Errorf("a lone prompt of %d tokens took %.2f times the time of the network", prompt, ratio)
		}
	}
}

// TestARememberedPaceProtectsTheFirstStream starts a scheduler with what another one
// learned: prompts beside writers keep within the target from the first pass on.
func TestARememberedPaceProtectsTheFirstStream(t *testing.T) {
	cfg := roomy
	cfg.StepTokens, cfg.Target = 512, 400*time.Millisecond
	before := newVirtual(t, cfg)
	before.cost = slow
	for _, prompt := range []int{512, 40, 3000} {
		lonePrompt(t, before, prompt)
	}
	text, err := json.Marshal(before.s.Pace())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &cfg.Pace); err != nil {
		t.Fatal(err)
	}
	if !cfg.Pace.Known() {
		t.Fatal("nothing was remembered")
	}
	v := newVirtual(t, cfg)
	v.cost = slow
	v.add(parley.Free, "writer", 1, 100)
	v.pass()
	v.add(parley.Free, "reader", 4000, 1)
	for range 30 {
		if took := v.pass(); took > cfg.Target {
			t.Fatalf("a pass beside a writer took %v, the target is %v", took, cfg.Target)
		}
	}
}

// TestAForgottenPace reads what is no pace.
func TestAForgottenPace(t *testing.T) {
	negative := `{"known":[[-1,0,0],[0,1,0],[0,0,1]],"sums":[1,1,1],"passes":9}`
	for _, text := range []string{`{`, `7`, `{"passes":-1}`, negative} {
		p := Pace{passes: 9}
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s was taken for a pace, %+v", text, p)
		}
	}
}
