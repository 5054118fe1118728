package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// linear is a machine of constant speed.
func linear(w Work) time.Duration {
	return 2*time.Millisecond + time.Duration(w.Rows)*50*time.Microsecond + time.Duration(w.Lookback)*30*time.Nanosecond
}

func randomWork(rng *rand.Rand) (w Work) {
	for range 1 + rng.IntN(16) {
		w = w.Add(1, rng.IntN(4000))
	}
	if rng.IntN(3) == 0 {
		w = w.Add(1+rng.IntN(400), rng.IntN(6000))
	}
	return w
}

func TestPaceLearnsALinearMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var p Pace
	for range 200 {
		w := randomWork(rng)
		p.Learn(w, linear(w))
	}
	for range 200 {
		w := randomWork(rng)
		got, want := p.Predict(w), linear(w)
		if ratio := float64(got) / float64(want); ratio < 0.97 || ratio > 1.1 {
			t.Fatalf("%+v: predicted %v, takes %v", w, got, want)
		}
	}
}

func TestPaceFollowsAMachineThatSlowsDown(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var p Pace
	for i := range 1500 {
		w := randomWork(rng)
		took := linear(w)
		if i > 500 {
			took *= 3
		}
		p.Learn(w, time.Duration(float64(took)*(0.9+0.2*rng.Float64())))
	}
	w := randomWork(rng)
	if ratio := float64(p.Predict(w)) / float64(3*linear(w)); ratio < 0.85 || ratio > 1.4 {
		t.Errorf("predicted %v, takes about %v", p.Predict(w), 3*linear(w))
	}
}

func TestPaceSurvivesOddMeasurements(t *testing.T) {
	var p Pace
	for i := range 10000 {
		w := Work{Rows: 1 + i%3}
		took := time.Duration(i%7) * time.Millisecond
		if i%100 == 0 {
			took = time.Hour
		}
		p.Learn(w, took)
		if got := p.Predict(w); got < 0 || slices.ContainsFunc(p.weight[:], math.IsNaN) {
			t.Fatalf("after %d passes: %v, %+v", i, got, p)
		}
	}
}

func TestFitStaysWithinTheLimit(t *testing.T) {
	var p Pace
	rng := rand.New(rand.NewPCG(3, 1))
	for range 100 {
		w := randomWork(rng)
		p.Learn(w, linear(w))
	}
	for range 300 {
		w, computed, limit := randomWork(rng), rng.IntN(8000), time.Duration(rng.IntN(60))*time.Millisecond
		n := p.Fit(w, computed, 500, limit)
		if n > 0 && p.Predict(w.Add(n, computed)) > limit || n < 500 && p.Predict(w.Add(n+1, computed)) <= limit {
			t.Fatalf("%+v and %d tokens after %d: predicted %v under %v", w, n, computed,
				p.Predict(w.Add(n, computed)), limit)
		}
	}
}

// TestPaceKeepsWhatItKnows shows it passes that are all alike but for a context
// that grows slowly, from which alone no weight can be told, and some noise.
// Before and after it must predict passes of other kinds.
func TestPaceKeepsWhatItKnows(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	noisy := func(w Work) time.Duration {
		return time.Duration(float64(linear(w)) * (0.85 + 0.4*rng.Float64()*rng.Float64()))
	}
	var p Pace
	for range 100 {
		w := randomWork(rng)
		p.Learn(w, noisy(w))
	}
	for i := range 3000 {
		w := Work{Rows: 17, Lookback: 16*(500+i) + 5000 + i}
		p.Learn(w, noisy(w))
		if ratio := float64(p.Predict(w)) / float64(linear(w)); ratio < 0.8 || ratio > 1.3 {
			t.Fatalf("pass %d, %+v: predicted %v, takes %v", i, w, p.Predict(w), linear(w))
		}
	}
	for range 100 {
		w := randomWork(rng)
		if ratio := float64(p.Predict(w)) / float64(linear(w)); ratio < 0.5 || ratio > 2 {
			t.Fatalf("%+v: predicted %v, takes %v", w, p.Predict(w), linear(w))
		}
	}
}

// TestPaceSurvivesPassesThatAreAlike learns from one large pass and small ones that
// hardly differ, of the same length: what tells them apart is below the precision of
// the arithmetic.
func TestPaceSurvivesPassesThatAreAlike(t *testing.T) {
	const took = 2 * time.Millisecond
	for _, prompt := range []int{64, 1200, 8000, 100_000} {
		var p Pace
		p.Learn(Work{}.Add(prompt, 0), took)
		for i := range 200 {
			p.Learn(Work{}.Add(1, prompt+i), took)
			got := p.Predict(Work{}.Add(1, prompt+i))
			if p.Known() && (got < took*8/10 || got > took*12/10) {
				t.Fatalf("after a prompt of %d and %d tokens: predicted %v, takes %v", prompt, i+1, got, took)
			}
		}
	}
}
