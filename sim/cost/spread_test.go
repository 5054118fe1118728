package cost

import (
	"math"
	"testing"
	"time"
)

// TestFitServed fits to passes of which those with two sequences come right after a prompt, where all passes take half as
// long again: the model must not have that in its times, as the runs have it.
func TestFitServed(t *testing.T) {
	var samples []Sample
	for run := range 20 {
		samples = append(samples, Sample{Pass{}.Add(64, 0), 20 * time.Millisecond})
		for place := range 40 {
			pass, took := Pass{}.Add(1, 100), 2*time.Millisecond
			if place < 6 && run%2 == 0 {
				pass, took = pass.Add(1, 100), 3*time.Millisecond
			}
			if place < runSettled {
				took = took * 3 / 2
			}
			samples = append(samples, Sample{pass, took})
		}
	}
	one, two := Pass{}.Add(1, 100), Pass{}.Add(1, 100).Add(1, 100)
	ratio := func(m *Model) float64 {
		a, _ := m.Time(one)
		b, _ := m.Time(two)
		return b.Seconds() / a.Seconds()
	}
	served, err := FitServed(samples)
	if err != nil {
		t.Fatal(err)
	}
	if got := ratio(served); math.Abs(got-1.5) > 0.02 {
		t.Errorf("a pass with two sequences takes %.3f times as long as one with one, want 1.5", got)
	}
	if plain, err := Fit(samples); err != nil || ratio(plain) < 1.8 {
		t.Errorf("without regard to runs it takes %.3f times as long, %v: the passes should mislead", ratio(plain), err)
	}
	var measured, drawn time.Duration
	draws := served.Draws(1, 0)
	for _, s := range samples {
		took, _ := draws.Time(s.Pass)
		measured, drawn = measured+s.Took, drawn+took
	}
	if off := drawn.Seconds()/measured.Seconds() - 1; math.Abs(off) > 0.02 {
		t.Errorf("all passes drawn take %+.1f %% longer than they took", 100*off)
	}
	if len(served.Runs) != 20 || served.Error == nil {
		t.Errorf("%d runs and an error of %v, want 20 runs", len(served.Runs), served.Error)
	}
	if _, err := FitServed(samples[:10]); err == nil {
		t.Error("ten passes are enough")
	}
}
