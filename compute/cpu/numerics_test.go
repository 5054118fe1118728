package cpu

import (
	"strings"
	"testing"

	"parley/compute"
	"parley/model/weights"
)

// compareFast fails if the scenario with fast numerics differs from the
// reference by more than budget times the root mean square of its values.
func (s scenario) compareFast(t *testing.T, budget float64) {
	t.Helper()
	want := s.onRef(t)
	for _, threads := range []int{1, 3} {
		if err := differ(s.on(t, Options{Threads: threads, Numerics: Fast}), want, budget); err != nil {
			t.Errorf("%d threads: %v", threads, err)
		}
	}
}

func TestFastNumerics(t *testing.T) {
	brainSet(t)
	r := newRand(9)
	for _, kind := range allTypes {
		for _, rows := range []int{1, 3, brainFew, brainFew + 1, 16, 17, 33, tiledFrom, 97, 200} {
			budget := budgetFast
			if packings[kind] != nil && rows < tiledFrom {
				budget = budgetQ8
			}
			scenarioLinear(kind, rows, 256*(1+r.IntN(4)), 2+r.IntN(90), 1+r.IntN(40)).compareFast(t, budget)
		}
		scenarioLinear(kind, 70, 2304, 40, 31).compareFast(t, budgetFast) // more columns than pass at a time
	}
	for range 12 {
		kind := []weights.DType{weights.F16, weights.BF16}[r.IntN(2)]
		scenarioLinear(kind, 1+r.IntN(100), 1+r.IntN(1000), 2+r.IntN(90), 1+r.IntN(40)).compareFast(t, budgetFast)
		kind = []weights.DType{weights.Q8_0, weights.Q4_0}[r.IntN(2)]
		scenarioLinear(kind, tiledFrom+r.IntN(100), 32*(1+r.IntN(31)), 2+r.IntN(90), 1+r.IntN(40)).compareFast(t,
			budgetFast)
	}
}

func TestFastMLPs(t *testing.T) {
	brainSet(t)
	for _, act := range []compute.Activation{compute.SiLU, compute.GELUTanh} {
		scenarioMLP(weights.F16, weights.BF16, weights.Q4_K, act, 77, 96, 512, false).compareFast(t, budgetMLPFast)
		scenarioMLP(weights.Q8_0, weights.F16, weights.Q8_0, act, 40, 96, 352, true).compareFast(t, budgetMLPQ8)
		scenarioMLP(weights.Q8_0, weights.F32, weights.Q4_0, act, 90, 96, 352, true).compareFast(t, budgetMLPFast)
	}
	for _, rows := range []int{1, 2, 33, 120} {
		scenarioMixture(weights.BF16, rows, 3, 2, true).compareFast(t, budgetMLPFast)
		scenarioMixture(weights.F16, rows, 3, 2, false).compareFast(t, budgetMLPFast)
		scenarioMixture(weights.Q8_0, rows, 3, 2, false).compareFast(t, budgetMLPQ8)
	}
}

// TestFastRowsOfFloats wants the same bits for a row however many there are,
// where weights have 16 bits: that much remains of exact numerics.
func TestFastRowsOfFloats(t *testing.T) {
	brainSet(t)
	for _, kind := range []weights.DType{weights.F16, weights.BF16} {
		m := newRowwise(kind)
		all := m.scenario(100).on(t, Options{Threads: 1, Numerics: Fast})
		for _, rows := range []int{1, 2, brainFew, brainFew + 1, 16, 17, 32, 33, 65} {
			got := m.scenario(rows).on(t, Options{Threads: 1 + rows%3, Numerics: Fast})
			if err := sameBits(got, all[:rows*rowwiseVocab]); err != nil {
				t.Errorf("%s, %d rows: %v", kind, rows, err)
			}
		}
	}
}

func TestNamesOfNumerics(t *testing.T) {
	for _, n := range []Numerics{Exact, Fast} {
		if got, err := ParseNumerics(n.String()); got != n || err != nil {
			t.Errorf("%v is read as %v, %v", n, got, err)
		}
	}
	if _, err := ParseNumerics("wild"); err == nil {
		t.Error("wild numerics were accepted")
	}
	for _, path := range supportedPaths() {
		c, err := New(Options{Threads: 1, Path: path, Numerics: Fast})
		if err != nil {
			t.Fatal(err)
		}
		arithmetic, rest, _ := strings.Cut(c.Name(), ",")
		if fast := c.kernels.brain != nil; strings.Contains(arithmetic, "fast") != fast ||
			strings.Contains(rest, "no fast") == fast {
			t.Errorf("a backend on %s calls itself %q", path, c.Name())
		}
		_ = c.Close()
	}
}
