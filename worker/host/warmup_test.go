package host

import (
	"strings"
	"sync/atomic"
	"testing"

	"parley/compute"
)

// A noting backend looks like a GPU and notes how many rows its first pass has.
type noting struct {
	lookalike
	first *atomic.Int32
	lost  bool
}

func (n *noting) Begin(step *compute.Step, ropes []compute.Rope) {
	n.first.CompareAndSwap(0, int32(len(step.Tokens)))
	if n.lost {
		panic(errLost)
	}
	n.Backend.Begin(step, ropes)
}

// TestGPUsWarmUp wants the first pass on a GPU, as large as passes get, before any request, and the answers of a
// model that had none.
func TestGPUsWarmUp(t *testing.T) {
	first := new(atomic.Int32)
	cfg := Config{KVTokens: 512, StepTokens: 128}
	plain := startHost(t, openBuiltin(t, "polly-mini"), cfg)
	cfg.wrap = func(b compute.Backend) compute.Backend { return &noting{lookalike: lookalike{b}, first: first} }
	h := startHost(t, openBuiltin(t, "polly-mini"), cfg)
	if n := first.Load(); n != 128 {
		t.Errorf("the first pass has %d rows before any request, want 128", n)
	}
	const question = "Hello! Who are you?"
	if got, want := ask(t, h, question), ask(t, plain, question); got != want {
		t.Errorf("after a warm-up the answer is %q, without %q", got, want)
	}
}

// TestWarmUpOfALostGPU wants an error that names the model.
func TestWarmUpOfALostGPU(t *testing.T) {
	plans, err := PlanMemory([]Candidate{{openBuiltin(t, "polly-mini"), Config{
		Name:     "polly-mini",
		KVTokens: 512,
		wrap: func(b compute.Backend) compute.Backend {
			return &noting{lookalike: lookalike{b}, first: new(atomic.Int32), lost: true}
		},
	}}}, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(plans[0]); err == nil || !strings.Contains(err.Error(), "polly-mini") ||
		!strings.Contains(err.Error(), "GPU is lost") {
		t.Errorf("a lost GPU is told as %v", err)
	}
}
