package cuda

import (
	"math"
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/computetest"
	"parley/compute/cpu"
	"parley/model/weights"
)

// A roundedRef is the reference with the roundings of this backend: what meets
// a BF16 matrix, and queries, are bfloat16. What is left between the two is the
// order of additions and the rounding of attention's weights.
type roundedRef struct {
	compute.Backend
	t     testing.TB
	step  *compute.Step
	ropes []compute.Rope
	// ties are the rows of the step for which the choice of experts was nearly a tie.
	ties map[int]bool
}

func newRoundedRef(t testing.TB) *roundedRef { return &roundedRef{Backend: cpu.NewRef(), t: t} }

func (r *roundedRef) Begin(step *compute.Step, ropes []compute.Rope) {
	r.step, r.ropes, r.ties = step, ropes, map[int]bool{}
	r.Backend.Begin(step, ropes)
}

func (r *roundedRef) read(b compute.Buffer) []float32 {
	_, cols := b.Dims()
	x := make([]float32, len(r.step.Tokens)*cols)
	r.ReadRows(x, b)
	return x
}

// rounded returns a buffer with the values as bfloat16.
func (r *roundedRef) rounded(values []float32, cols int) compute.Buffer {
	rows := len(values) / cols
	table := weights.Tensor{Type: weights.F32, Shape: []int{rows, cols}, Data: make([]byte, 4*len(values))}
	for i, v := range values {
		computetest.PutFloat(table.Data, weights.F32, i, weights.FromBF16(weights.ToBF16(v)))
	}
	plain := computetest.PlainStep(rows)
	for i := range rows {
		plain.Tokens[i] = parley.Token(i)
	}
	w, err := r.Upload(table)
	if err != nil {
		r.t.Fatal(err)
	}
	to, err := r.NewBuffer(rows, cols)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Backend.Begin(plain, nil)
	r.Embed(to, w, 1)
	r.Backend.Begin(r.step, r.ropes)
	return to
}

func (r *roundedRef) round(b compute.Buffer) compute.Buffer {
	_, cols := b.Dims()
	return r.rounded(r.read(b), cols)
}

func (r *roundedRef) Linear(src compute.Buffer, ps []compute.Projection) {
	r.Backend.Linear(r.round(src), ps)
}

func (r *roundedRef) Attend(layer int, dst, q compute.Buffer, a *compute.Attention) {
	r.Backend.Attend(layer, dst, r.round(q), a)
}

func (r *roundedRef) Logits(dst []float32, src compute.Buffer, table compute.Weight) {
	r.Backend.Logits(dst, r.round(src), table)
}

func (r *roundedRef) GatedMLP(dst, src compute.Buffer, m *compute.MLP) {
	inner, _ := m.Gate.Dims()
	gate, _ := r.NewBuffer(len(r.step.Tokens), inner)
	up, _ := r.NewBuffer(len(r.step.Tokens), inner)
	r.Linear(src, []compute.Projection{{Out: gate, W: m.Gate, Bias: m.GateBias}, {Out: up, W: m.Up, Bias: m.UpBias}})
	hidden, factors := r.read(gate), r.read(up)
	for i, v := range hidden {
		hidden[i] = activated(m.Act, v) * factors[i]
	}
	r.Backend.Linear(r.rounded(hidden, inner), []compute.Projection{{Out: dst, W: m.Down, Bias: m.DownBias}})
}

// tieMargin is the share of probability by which an expert that is taken must exceed
// the best one that is not: below it, sums in another order may choose the other one.
const tieMargin = 0.003

// Mixture also notes the rows whose choice of experts is nearly a tie.
func (r *roundedRef) Mixture(dst, src compute.Buffer, e *compute.Experts) {
	experts, _ := e.Router.Dims()
	scores, err := r.NewBuffer(len(r.step.Tokens), experts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Backend.Linear(src, []compute.Projection{{Out: scores, W: e.Router}})
	for row, logits := range slices.Collect(slices.Chunk(r.read(scores), experts)) {
		if experts > e.TopK && margin(logits, e.TopK) < tieMargin {
			r.ties[row] = true
		}
	}
	r.Backend.Mixture(dst, src, e)
}

// margin returns by how much the k-th greatest probability exceeds the next one.
func margin(logits []float32, k int) float64 {
	sorted := slices.Sorted(slices.Values(logits))
	slices.Reverse(sorted)
	var sum float64
	for _, v := range sorted {
		sum += math.Exp(float64(v - sorted[0]))
	}
	return (math.Exp(float64(sorted[k-1]-sorted[0])) - math.Exp(float64(sorted[k]-sorted[0]))) / sum
}

func activated(a compute.Activation, x float32) float32 {
	v := float64(x)
	if a == compute.GELUTanh {
		return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	}
	return float32(v / (1 + math.Exp(-v)))
}
