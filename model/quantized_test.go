package model

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"parley/internal/testkit"
	"parley/model/weights"
)

// The budgets of quantized weights, end to end: over all positions of the
// golden prompts, how often the most probable token must be the reference's,
// and how far the distribution may be from that of the same network with its
// own weights, on average.
var quantizedBudgets = []struct {
	quant      weights.DType
	agreement  float64
	divergence float64 // nats
}{
	{weights.Q8_0, 0.97, 0.005},
	{weights.Q6_K, 0.97, 0.003},
	{weights.Q5_K, 0.95, 0.01},
	{weights.Q4_K, 0.90, 0.03},
	{weights.Q4_0, 0.86, 0.06},
}

func TestQuantizedStaysClose(t *testing.T) {
	var models []golden
	for _, g := range goldens(t) {
		if g.rounded { // the trained ones: random networks have no opinion to lose
			models = append(models, g)
		}
	}
	for _, budget := range quantizedBudgets {
		for _, g := range models {
			t.Run(budget.quant.String()+"/"+g.name, func(t *testing.T) {
				testQuantized(t, &g, budget.quant, budget.agreement, budget.divergence)
			})
		}
	}
}

func TestQuantizedPollyStaysClose(t *testing.T) {
	g := golden{name: "polly", dir: testkit.SharedModel(t, "polly"), outputs: testkit.Golden("polly", "golden.json")}
	testQuantized(t, &g, weights.Q8_0, 0.97, 0.005)
}

func testQuantized(t *testing.T, g *golden, quant weights.DType, agreement, divergence float64) {
	exact := g.runner(t, newFast(t, 1, ""))
	small := *g
	small.dir = convert(t, g.dir, quant)
	quantized := small.runner(t, newFast(t, 1, ""))

	same, total, sum := 0, 0, 0.0
	for _, p := range testkit.ReadOutputs(t, g.outputs).Prompts {
		exact.past, quantized.past = 0, 0
		want, got := exact.feed(p.IDs), quantized.feed(p.IDs)
		for i := range want {
			if argmax(got[i]) == p.ArgmaxByPosition[i] {
				same++
			}
			sum += kl(want[i], got[i])
			total++
		}
	}
	share, mean := float64(same)/float64(total), sum/float64(total)
	t.Logf("%d positions: %.4f agree, KL %.5f nats", total, share, mean)
	if share < agreement || !(mean <= divergence) {
		t.Errorf("%.4f agree, want %.2f; KL %.5f nats, want at most %.3f", share, agreement, mean, divergence)
	}
}

// kl returns the Kullback-Leibler divergence of the distribution of logits q
// from that of p, in nats.
func kl(p, q []float32) (sum float64) {
	lp, lq := logSum(p), logSum(q)
	for i := range p {
		a := float64(p[i]) - lp
		sum += math.Exp(a) * (a - float64(q[i]) + lq)
	}
	return sum
}

func logSum(x []float32) float64 {
	top := float64(x[argmax(x)])
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// convert writes the checkpoint as a GGUF file of the type and returns its path.
func convert(t testing.TB, dir string, quant weights.DType) string {
	t.Helper()
	ck, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	path := filepath.Join(t.TempDir(), "model.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := weights.Convert(ck, f, weights.ConvertOptions{Type: quant, Name: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
