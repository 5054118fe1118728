package sim

import (
	"math"
	"strings"
	"testing"
)

// guessing is a worker with long answers, which guesses ahead.
const guessing = `
name: guessing
duration: 60s
pools:
  - {workers: 1, replica: {model: 70b, device: h100, tp: 4}, SPECULATION}
traffic:
  - {name: a, prompt: 100, output: 2000, rate: [{at: 0s, per_second: 0.1}]}
`

func guess(t *testing.T, speculation string) *Result {
	t.Helper()
	s, err := newSimulation(read(t, strings.Replace(guessing, "SPECULATION", speculation, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	if r.Total.Finished != r.Total.Arrived || r.Total.Arrived == 0 {
		t.Fatalf("%d of %d are answered", r.Total.Finished, r.Total.Arrived)
	}
	for _, w := range s.stations[0].workers {
		if err := w.plans.Check(); err != nil {
			t.Error(err)
		}
	}
	return r
}

// TestSpeculation: passes with k guesses that are each right with the chance a yield (1-a^(k+1))/(1-a) tokens on
// average, and answers come sooner by that, less what the guesses cost.
func TestSpeculation(t *testing.T) {
	t.Parallel()
	plain := guess(t, "seqs: 1") // one sequence at a time, so that passes are those of its tokens
	one := float64(plain.Total.Finished) * 2000 / float64(plain.Fleet.Passes)
	for _, c := range []struct {
		a string
		k float64
	}{{"0.5", 1}, {"0.7", 4}, {"0.9", 8}} {
		chance := map[string]float64{"0.5": 0.5, "0.7": 0.7, "0.9": 0.9}[c.a]
		with := func(more string) *Result {
			return guess(t, "seqs: 1, speculation: {acceptance: ["+c.a+"], depth: "+map[float64]string{
				1: "1", 4: "4", 8: "8"}[c.k]+more+"}")
		}
		r := with("")
		want := (1 - math.Pow(chance, c.k+1)) / (1 - chance)
		got := float64(r.Total.Finished) * 2000 / float64(r.Fleet.Passes) / one
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("acceptance %s and depth %g: %.3f tokens in a pass, want %.3f", c.a, c.k, got, want)
		}
		if sooner := plain.Total.TPOT.P50 / r.Total.TPOT.P50; sooner < 0.9*want || sooner > 1.03*want {
			t.Errorf("acceptance %s and depth %g: tokens come %.2f times as fast, want about %.2f", c.a, c.k, sooner,
				want)
		}
		// A draft network of a tenth of the model adds a tenth of a pass for each guess.
		dear := with(", draft_cost: 0.1")
		if slower := dear.Total.TPOT.P50 / r.Total.TPOT.P50; math.Abs(slower/(1+0.1*c.k)-1) > 0.05 {
			t.Errorf("acceptance %s and depth %g: a draft network makes tokens %.3f times as slow", c.a, c.k, slower)
		}
	}
}

// TestSpeculationIsDecided: without a depth the engine decides, and does not guess where it does not pay.
func TestSpeculationIsDecided(t *testing.T) {
	t.Parallel()
	plain := guess(t, "seqs: 1")
	good := guess(t, "seqs: 1, speculation: {acceptance: [0.9, 0.8, 0.7]}")
	if sooner := plain.Total.TPOT.P50 / good.Total.TPOT.P50; sooner < 2 {
		t.Errorf("good guesses make tokens %.2f times as fast", sooner)
	}
	bad := guess(t, "seqs: 1, speculation: {acceptance: [0.05], draft_cost: 0.3}")
	if sooner := plain.Total.TPOT.P50 / bad.Total.TPOT.P50; sooner < 0.9 {
		t.Errorf("bad guesses make tokens %.2f times as fast", sooner)
	}
	for _, wrong := range []string{"{}", "{acceptance: [1.5]}", "{acceptance: [0.5], depth: 9}",
		"{acceptance: [0.5], draft_cost: -1}"} {
		if _, err := Read([]byte(strings.Replace(guessing, "SPECULATION", "speculation: "+wrong, 1))); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
