package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPhiloxGivesThePublishedVectors(t *testing.T) {
	for _, v := range []struct{ low, high, key, wantLow, wantHigh uint64 }{
		{0, 0, 0, 0xca00a0459843d731, 0x66c24222c9a845b5},
		{math.MaxUint64, math.MaxUint64, math.MaxUint64, 0x65b021d60cd8310f, 0x4d02f3222f86df20},
		{0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x0a5e742c2997341c, 0xb0f883d38000de5d},
	} {
		if low, high := philox(v.low, v.high, v.key); low != v.wantLow || high != v.wantHigh {
			t.Errorf("philox(%x, %x, %x) = %x %x, want %x %x", v.low, v.high, v.key, low, high, v.wantLow, v.wantHigh)
		}
	}
}

func TestDrawBelowStaysBelow(t *testing.T) {
	for position := range uint64(1000) {
		for _, limit := range []uint64{1, 2, 3, weightOne, math.MaxUint64} {
			if drawn := drawBelow(limit, 9, 1, position); drawn >= limit {
				t.Fatalf("draw %d below %d gave %d", position, limit, drawn)
			}
		}
	}
}

func TestFadeIsTheExponential(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	worst := 0.0
	for range 200000 {
		steps := rng.Float64() * faintSteps
		want := math.Exp2(-steps / stepsPerOctave)
		worst = max(worst, math.Abs(fade(steps)/want-1))
	}
	if worst > 2e-14 {
		t.Errorf("relative error %g, want below 2e-14", worst)
	}
	if fade(0) != 1 || fade(stepsPerOctave) != 0.5 {
		t.Errorf("fade(0) = %v, fade(one octave) = %v, want exactly 1 and 0.5", fade(0), fade(stepsPerOctave))
	}
}

func TestStepsToUndoesFade(t *testing.T) {
	for _, part := range []float64{1, 0.999, 0.5, 0.1, 1e-3, 1e-12} {
		if got, want := stepsTo(part), -math.Log2(part)*stepsPerOctave; math.Abs(got-want) > 1e-9 {
			t.Errorf("a weight fades to %v after %v steps, want %v", part, got, want)
		}
	}
	if got := stepsTo(math.SmallestNonzeroFloat32); got < horizonSteps {
		t.Errorf("the least min_p drops weights from %v steps on, want none", got)
	}
}

func TestEveryDistanceHasABucket(t *testing.T) {
	if got := int(bucketAt(horizonSteps)); got != bucketsUsed-1 || got >= noBucket {
		t.Errorf("horizon is in bucket %d, want the last, %d, below the mark %d", got, bucketsUsed-1, noBucket)
	}
	if weightAt(0) != weightOne || weightAt(horizonSteps+1) != 0 {
		t.Errorf("weights at 0 and past the horizon are %d and %d, want %d and 0", weightAt(0),
			weightAt(horizonSteps+1), uint64(weightOne))
	}
}

func TestKeysSortByScoreThenIndex(t *testing.T) {
	inf := float32(math.Inf(1))
	scores := []float32{0, -1, 3, float32(math.Copysign(0, -1)), 3, -inf, inf, math.MaxFloat32, -math.MaxFloat32,
		math.SmallestNonzeroFloat32, 0, -1e-30}
	var keys []key
	for i, score := range scores {
		keys = append(keys, keyOf(score, i))
		if got := keys[i].score(); got != score || keys[i].index() != i {
			t.Errorf("key of (%v, %d) unpacks to (%v, %d)", score, i, got, keys[i].index())
		}
	}
	want := slices.Clone(keys)
	slices.SortFunc(want, func(a, b key) int {
		return cmp.Or(cmp.Compare(b.score(), a.score()), cmp.Compare(a.index(), b.index()))
	})
	slices.Sort(keys)
	if !slices.Equal(keys, want) {
		t.Errorf("keys sort to %v, want %v", keys, want)
	}
}

func TestRankEqualsASort(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	scratch := new(Scratch)
	for range 2000 {
		scores := make([]float32, 1+rng.IntN(200))
		for i := range scores {
			scores[i] = float32(rng.IntN(20))
		}
		n := 1 + rng.IntN(len(scores)+5)
		want := make([]key, len(scores))
		for i, score := range scores {
			want[i] = keyOf(score, i)
		}
		slices.Sort(want)
		if got := scratch.rank(scores, n); !slices.Equal(got, want[:min(n, len(want))]) {
			t.Fatalf("rank(%v, %d) = %v", scores, n, got)
		}
	}
}

func TestReachEqualsAWalkWhateverTheOrder(t *testing.T) {
	const n = 5000
	orders := map[string]func(i int) float32{
		"equal":      func(int) float32 { return 1 },
		"rising":     func(i int) float32 { return float32(i) * 1e-6 },
		"falling":    func(i int) float32 { return float32(-i) * 1e-6 },
		"organ pipe": func(i int) float32 { return float32(min(i, n-i)) * 1e-6 },
		"sawtooth":   func(i int) float32 { return float32(i%7) * 1e-6 },
	}
	for name, order := range orders {
		keys := make([]key, n)
		peak := float32(math.Inf(-1))
		for i := range keys {
			keys[i] = keyOf(order(i), i)
			peak = max(peak, order(i))
		}
		c := curveOf(peak, 1)
		sorted := slices.Clone(keys)
		slices.Sort(sorted)
		passed := uint64(0)
		for i, k := range sorted {
			passed += c.weight(k.score())
			if i%501 != 0 {
				continue
			}
			byMass, mass := c.reach(slices.Clone(keys), passed, noRank)
			byRank, rankMass := c.reach(slices.Clone(keys), noMass, i+1)
			if byMass != k.index() || byRank != k.index() || mass != passed || rankMass != passed {
				t.Errorf("%s: place %d is %d by mass and %d by rank, want %d", name, i, byMass, byRank, k.index())
			}
		}
	}
}
