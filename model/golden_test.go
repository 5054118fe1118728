package model

import (
	"flag"
	"math"
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/testkit"
	"parley/model/weights"
)

// A runner feeds tokens of one sequence through a model, in chunks of any size.
type runner struct {
	m      *Model
	blocks []int32
	past   int
}

const runnerBlocks = 128

func newRunner(t testing.TB, dir string, be compute.Backend) *runner {
	t.Helper()
	return newRunnerKV(t, dir, be, compute.KVF32)
}

func newRunnerKV(t testing.TB, dir string, be compute.Backend, kind compute.KVType) *runner {
	t.Helper()
	ck, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = be.Close(); _ = ck.Close() })
	m, err := Load(ck, be, Limits{Rows: 1024, Outputs: 1024, Blocks: runnerBlocks, KV: kind})
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{m: m}
	for b := range runnerBlocks {
		r.blocks = append(r.blocks, int32((b*37+11)%runnerBlocks)) // any order but the plain one
	}
	return r
}

// feed appends tokens to the sequence and returns the logits after each.
func (r *runner) feed(ids []parley.Token) [][]float32 {
	step := &compute.Step{Tokens: ids, Seqs: []compute.Seq{{Rows: len(ids), Past: r.past, Blocks: r.blocks}}}
	for i := range ids {
		step.Outputs = append(step.Outputs, int32(i))
	}
	flat := make([]float32, len(ids)*r.m.Vocab())
	r.m.Forward(step, flat)
	r.past += len(ids)
	var rows [][]float32
	for i := range ids {
		rows = append(rows, flat[i*r.m.Vocab():][:r.m.Vocab()])
	}
	return rows
}

func argmax(x []float32) parley.Token {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return parley.Token(best)
}

func logprob(x []float32, id parley.Token) float64 {
	top := float64(x[argmax(x)])
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return float64(x[id]) - top - math.Log(sum)
}

// A golden is a checkpoint and the file of its expected outputs.
type golden struct {
	name, dir, outputs string
	// rounded says that the reference ran with rotary frequencies rounded to
	// bfloat16, which is what becomes of them when a whole PyTorch module is
	// converted to bfloat16 and back. Loading a checkpoint keeps them exact, as
	// the other goldens and every other program do.
	rounded bool
	// kv is how keys and values are kept.
	kv compute.KVType
}

// runner loads the golden's checkpoint.
func (g *golden) runner(t testing.TB, be compute.Backend) *runner {
	r := newRunnerKV(t, g.dir, be, g.kv)
	if g.rounded {
		for _, rope := range r.m.net.ropes {
			for i, f := range rope.InvFreq {
				bits := math.Float32bits(f)
				rope.InvFreq[i] = math.Float32frombits((bits + 0x7FFF + bits>>16&1) &^ 0xFFFF)
			}
		}
	}
	return r
}

func goldens(t *testing.T) (all []golden) {
	t.Helper()
	for _, name := range []string{"tiny-llama", "tiny-qwen2", "tiny-qwen3"} {
		all = append(all, golden{name, testkit.Golden(name), testkit.Golden(name, "golden.json"), true, compute.KVF32})
	}
	for _, name := range testkit.SyntheticModels(t) {
		all = append(all, golden{name, testkit.SyntheticModel(t, name),
			testkit.Golden("synthetic", name, "golden.json"), false, compute.KVF32})
	}
	return all
}

// tolerance is how far a logit or log-probability may be from the reference
// implementation's: both compute in float32, in different orders, and the
// golden numbers are rounded to five places.
const tolerance = 1e-3

func TestReferenceMatchesGolden(t *testing.T) {
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) { testReference(t, g) })
	}
}

func TestReferenceMatchesGoldenPolly(t *testing.T) {
	g := golden{name: "polly", dir: testkit.SharedModel(t, "polly"), outputs: testkit.Golden("polly", "golden.json")}
	testReference(t, g)
}

var everyPrompt = flag.Bool("all", false, "have the reference read every golden prompt, not just three of each model")

// testReference compares the reference, which computes one number at a time, with golden outputs: of
// the first two prompts and of the longest that has less than 300 tokens. The fast path reads all.
func testReference(t *testing.T, g golden) {
	prompts := testkit.ReadOutputs(t, g.outputs).Prompts
	if !*everyPrompt {
		longest := prompts[0]
		for _, p := range prompts {
			if n := len(p.IDs); n > len(longest.IDs) && n < 300 {
				longest = p
			}
		}
		prompts = append(prompts[:2:2], longest)
	}
	comparePrompts(t, prompts, g.runner(t, cpu.NewRef()))
}

func testGolden(t *testing.T, g golden, r *runner) {
	comparePrompts(t, testkit.ReadOutputs(t, g.outputs).Prompts, r)
}

func comparePrompts(t *testing.T, prompts []testkit.PromptOutput, r *runner) {
	for i, want := range prompts {
		r.past = 0
		rows := r.feed(want.IDs)
		checkLogits(t, i, rows[len(rows)-1], want)
		for pos, row := range rows {
			if got := argmax(row); got != want.ArgmaxByPosition[pos] {
				t.Errorf("prompt %d: argmax at position %d is %d, want %d", i, pos, got, want.ArgmaxByPosition[pos])
			}
			if pos+1 < len(want.IDs) {
				near(t, i, "log-probability", pos, float32(logprob(row, want.IDs[pos+1])), want.PromptLogprobs[pos])
			}
		}
		checkGreedy(t, i, r, rows[len(rows)-1], want.GreedyIDs)
	}
}

func checkLogits(t *testing.T, prompt int, last []float32, want testkit.PromptOutput) {
	for j, w := range want.LastLogits {
		near(t, prompt, "logit", j, last[j], w)
	}
	for j, id := range want.TopIDs {
		if want.TopLogits != nil {
			near(t, prompt, "top logit", j, last[id], want.TopLogits[j])
		}
	}
}

func near(t *testing.T, prompt int, what string, at int, got, want float32) {
	t.Helper()
	if !(math.Abs(float64(got-want)) <= tolerance) {
		t.Errorf("prompt %d: %s %d is %v, want %v", prompt, what, at, got, want)
	}
}

func checkGreedy(t *testing.T, prompt int, r *runner, last []float32, want []parley.Token) {
	for n, id := range want {
		if got := argmax(last); got != id {
			t.Errorf("prompt %d: greedy token %d is %d, want %d", prompt, n, got, id)
			return
		}
		last = r.feed([]parley.Token{id})[0]
	}
}
