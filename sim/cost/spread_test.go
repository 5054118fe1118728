package cost

import (
	"math"
	"testing"
	"time"
)

// TestFitServed fits to passes of which those with two sequences come right after a prompt, where all passes take
// half as long again: the model must not have that in its times, as the runs have it.
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

// TestDrawsAlike draws for prompts of two sizes, of which the small ones took between half and twice the time of the
// model, and the large ones just that.
func TestDrawsAlike(t *testing.T) {
	m := &Model{Rows: []Knot{{1, 0.001}, {1000, 1}}}
	for i := range 200 {
		ratio, rows := []float64{0.5, 2}[i%2], 10+i/50
		if i >= 100 {
			ratio, rows = 1, 500+i
		}
		m.Runs, m.RunRows = append(m.Runs, Run{ratio}), append(m.RunRows, rows)
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	draws, seen := m.Draws(1, 0), map[float64]bool{}
	for range 100 {
		for _, rows := range []int{9, 650} {
			pass := Pass{}.Add(rows, 0)
			expected, _ := m.Time(pass)
			took, _ := draws.Time(pass)
			ratio := math.Round(100*took.Seconds()/expected.Seconds()) / 100
			if rows == 650 && ratio != 1 {
				t.Fatalf("a large prompt took %g times as long", ratio)
			}
			seen[ratio] = seen[ratio] || rows == 9
		}
	}
	if !seen[0.5] || !seen[2] {
		t.Errorf("small prompts took %v times as long, want 0.5 and 2", seen)
	}
	if m.RunRows = m.RunRows[1:]; m.Validate() == nil {
		t.Error("rows of some runs are enough")
	}
}
