package model

import (
	"math"
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/testkit"
)

func newFast(t testing.TB, threads int, path string) *cpu.CPU {
	t.Helper()
	be, err := cpu.New(cpu.Options{Threads: threads, Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return be
}

// TestFastMatchesGolden holds the fast path, on the checkpoints' own bfloat16
// weights, to the same tolerance as the reference.
func TestFastMatchesGolden(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) { testGolden(t, g, g.runner(t, newFast(t, 2, ""))) })
	}
}

func TestFastMatchesGoldenPolly(t *testing.T) {
	g := golden{name: "polly", dir: testkit.SharedModel(t, "polly"), outputs: testkit.Golden("polly", "golden.json")}
	testGolden(t, g, g.runner(t, newFast(t, 2, "")))
}

// bits returns the exact contents of rows.
func bits(rows [][]float32) (out []uint32) {
	for _, row := range rows {
		for _, v := range row {
			out = append(out, math.Float32bits(v))
		}
	}
	return out
}

// TestOneNumericClass computes one sequence whole, in chunks, token by token,
// on other numbers of threads, and among other sequences, and wants the same
// bits each time.
func TestOneNumericClass(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) { testOneNumericClass(t, g) })
	}
}

func testOneNumericClass(t *testing.T, g golden) {
	r := g.runner(t, newFast(t, 1, ""))
	prompts := testkit.ReadOutputs(t, g.outputs).Prompts
	ids := prompts[len(prompts)-1].IDs
	ids = ids[:min(len(ids), 120)]
	want := bits(r.feed(ids))

	for _, chunk := range []int{1, 2, 3, 7, 16, 33} {
		r.past = 0
		slices.Reverse(r.blocks)
		var got []uint32
		for part := range slices.Chunk(ids, chunk) {
			got = append(got, bits(r.feed(part))...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("in chunks of %d the logits have other bits", chunk)
		}
	}
	if got := bits(among(r, ids)); !slices.Equal(got, want) {
		t.Error("among other sequences the logits have other bits")
	}
	for _, threads := range []int{2, 3, 5} {
		if got := bits(g.runner(t, newFast(t, threads, "")).feed(ids)); !slices.Equal(got, want) {
			t.Errorf("on %d threads the logits have other bits", threads)
		}
	}
}

// among computes ids as the middle one of five sequences in one step, after a
// first step that computed some of them.
func among(r *runner, ids []parley.Token) [][]float32 {
	const seqs, mid = 5, 2
	per := len(r.blocks) / seqs
	var rows [][]float32
	past := make([]int, seqs)
	for _, cut := range [][2]int{{0, len(ids) / 3}, {len(ids) / 3, len(ids)}} {
		step := &compute.Step{}
		for s := range seqs {
			part := ids[cut[0]:cut[1]]
			if s != mid {
				part = slices.Concat(part[len(part)/2:], part[:s])
			}
			step.Seqs = append(step.Seqs,
				compute.Seq{Row: len(step.Tokens), Rows: len(part), Past: past[s], Blocks: r.blocks[s*per:][:per]})
			if s == mid {
				for i := range part {
					step.Outputs = append(step.Outputs, int32(len(step.Tokens)+i))
				}
			}
			step.Tokens = append(step.Tokens, part...)
			past[s] += len(part)
		}
		flat := make([]float32, len(step.Outputs)*r.m.Vocab())
		r.m.Forward(step, flat)
		rows = append(rows, slices.Collect(slices.Chunk(flat, r.m.Vocab()))...)
	}
	return rows
}

// A tally counts the calls of a backend's operations.
type tally struct {
	compute.Backend
	calls int
}

func (c *tally) Embed(dst compute.Buffer, w compute.Weight, scale float32) {
	c.calls++
	c.Backend.Embed(dst, w, scale)
}

func (c *tally) Norm(dst, src compute.Buffer, w compute.Weight, eps, offset float32) {
	c.calls++
	c.Backend.Norm(dst, src, w, eps, offset)
}

func (c *tally) Linear(src compute.Buffer, ps []compute.Projection) {
	c.calls++
	c.Backend.Linear(src, ps)
}

func (c *tally) RopeStore(layer, rope int, x *compute.QKV) {
	c.calls++
	c.Backend.RopeStore(layer, rope, x)
}

func (c *tally) Attend(layer int, dst, q compute.Buffer, a *compute.Attention) {
	c.calls++
	c.Backend.Attend(layer, dst, q, a)
}

func (c *tally) GatedMLP(dst, src compute.Buffer, m *compute.MLP) {
	c.calls++
	c.Backend.GatedMLP(dst, src, m)
}

func (c *tally) Mixture(dst, src compute.Buffer, e *compute.Experts) {
	c.calls++
	c.Backend.Mixture(dst, src, e)
}

func (c *tally) Add(dst, src compute.Buffer) { c.calls++; c.Backend.Add(dst, src) }

func (c *tally) Logits(dst []float32, src compute.Buffer, w compute.Weight) {
	c.calls++
	c.Backend.Logits(dst, src, w)
}

// TestOnePassWhateverTheBatch counts the operations of a step with one
// sequence and of one with forty.
func TestOnePassWhateverTheBatch(t *testing.T) {
	for _, name := range []string{"llama2", "qwen3-moe", "gemma3"} {
		counted := &tally{Backend: newFast(t, 1, "")}
		r := newRunner(t, testkit.SyntheticModel(t, name), counted)
		logits := make([]float32, 64*r.m.Vocab())
		var calls []int
		for _, seqs := range []int{1, 40} {
			counted.calls = 0
			r.m.Forward(batchOf(r, seqs), logits)
			calls = append(calls, counted.calls)
		}
		if calls[0] != calls[1] || calls[0] == 0 {
			t.Errorf("%s: one sequence takes %d operations, forty take %d", name, calls[0], calls[1])
		}
	}
}

func batchOf(r *runner, seqs int) *compute.Step {
	step := &compute.Step{}
	for s := range seqs {
		step.Tokens = append(step.Tokens, parley.Token(3+s), parley.Token(50+s))
		step.Seqs = append(step.Seqs, compute.Seq{Row: 2 * s, Rows: 2, Past: s % 9, Blocks: r.blocks[s : s+1]})
		step.Outputs = append(step.Outputs, int32(2*s+1))
	}
	return step
}

// TestStepAllocatesNothing runs whole forward passes of changing size.
func TestStepAllocatesNothing(t *testing.T) {
	for _, name := range []string{"llama2", "qwen3-moe", "gemma3"} {
		r := newRunner(t, testkit.SyntheticModel(t, name), newFast(t, 2, ""))
		logits := make([]float32, 64*r.m.Vocab())
		steps := []*compute.Step{batchOf(r, 40), batchOf(r, 1), batchOf(r, 7)}
		n := 0
		if allocs := testing.AllocsPerRun(30, func() { r.m.Forward(steps[n%3], logits); n++ }); allocs != 0 {
			t.Errorf("%s: a step allocates %v times", name, allocs)
		}
	}
}
