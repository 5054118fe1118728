package cpu

import (
	"testing"

	"parley/compute"
	"parley/compute/computetest"
	"parley/model/weights"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What scenarios are made of is shared with other backends.
type bench = computetest.Bench

var (
	allTypes     = computetest.AllTypes
	newRand      = computetest.NewRand
	randomFloats = computetest.Floats
	randomTensor = computetest.Tensor
	vectorTensor = computetest.Vector
	putFloat     = computetest.PutFloat
	differ       = computetest.Differ
	sameBits     = computetest.SameBits
	plainStep    = computetest.PlainStep
	blockTable   = computetest.BlockTable
	invFreq      = computetest.InvFreq
)

// contents returns what a buffer holds.
func contents(b compute.Buffer) []float32 {
	if fast, ok := b.(*buffer); ok {
		return fast.data
	}
	return b.(*refMatrix).data
}

// A scenario computes something on a backend. It must do the same each time it is called.
type scenario computetest.Scenario

func (s scenario) on(t testing.TB, o Options) []float32 {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	return s(bench{TB: t, Backend: c})
}

func (s scenario) onRef(t testing.TB) []float32 { return s(bench{TB: t, Backend: NewRef()}) }

// supportedPaths are the names of the paths that this machine can run.
func supportedPaths() []string {
	var names []string
	for _, p := range paths() {
		if p.supported {
			names = append(names, p.kernels.name)
		}
	}
	return names
}

// compare fails if the scenario differs from the reference on any path by
// more than budget times the root mean square of the reference's values.
func (s scenario) compare(t *testing.T, budget float64) {
	t.Helper()
	want := s.onRef(t)
	for _, path := range supportedPaths() {
		for _, threads := range []int{1, 3} {
			got := s.on(t, Options{Threads: threads, Path: path})
			if err := differ(got, want, budget); err != nil {
				t.Errorf("%s, %d threads: %v", path, threads, err)
			}
		}
	}
}

func scenarioLinear(kind weights.DType, rows, cols, outA, outB int) scenario {
	return scenario(computetest.Linear(kind, rows, cols, outA, outB))
}

func scenarioMLP(gate, up, down weights.DType, act compute.Activation, rows, hidden, inner int, biases bool) scenario {
	return scenario(computetest.GatedMLP(gate, up, down, act, rows, hidden, inner, biases))
}

func scenarioMixture(kind weights.DType, rows, experts, topK int, norm bool) scenario {
	return scenario(computetest.Mixture(kind, rows, experts, topK, norm))
}
