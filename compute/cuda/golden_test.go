package cuda

import (
	"math"
	"slices"
	"strings"
	"testing"

	"parley"
	"parley/compute"
	"parley/compute/computetest"
	"parley/internal/testkit"
	"parley/model"
	"parley/model/weights"
)

// A runner feeds tokens of sequences through a model, in steps of any shape.
type runner struct {
	m      *model.Model
	blocks []int32
}

const runnerBlocks, runnerRows = 128, 256

func newRunner(t testing.TB, dir string, be compute.Backend, kind compute.KVType) *runner {
	t.Helper()
	ck, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ck.Close() })
	limits := model.Limits{Rows: runnerRows, Outputs: runnerRows, Blocks: runnerBlocks, KV: kind, Narrow: true}
	m, err := model.Load(ck, be, limits)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{m: m}
	for b := range runnerBlocks {
		r.blocks = append(r.blocks, int32((b*37+11)%runnerBlocks)) // any order but the plain one
	}
	return r
}

// feed appends tokens to a sequence of past tokens and returns the logits after each.
func (r *runner) feed(ids []parley.Token, past int) [][]float32 {
	step := &compute.Step{Tokens: ids, Seqs: []compute.Seq{{Rows: len(ids), Past: past, Blocks: r.blocks}}}
	for i := range ids {
		step.Outputs = append(step.Outputs, int32(i))
	}
	return r.forward(step)
}

func (r *runner) forward(step *compute.Step) (rows [][]float32) {
	flat := make([]float32, len(step.Outputs)*r.m.Vocab())
	r.m.Forward(step, flat)
	for i := range step.Outputs {
		rows = append(rows, flat[i*r.m.Vocab():][:r.m.Vocab()])
	}
	return rows
}

// best returns the greatest logit's token and how far it is ahead of the next.
func best(x []float32) (at parley.Token, ahead float64) {
	top, second := math.Inf(-1), math.Inf(-1)
	for i, v := range x {
		switch f := float64(v); {
		case f > top:
			top, second, at = f, top, parley.Token(i)
		case f > second:
			second = f
		}
	}
	return at, top - second
}

// goldenDirs are the checkpoints with outputs of another implementation.
func goldenDirs(t *testing.T) map[string][2]string {
	dirs := map[string][2]string{}
	for _, name := range testkit.SyntheticModels(t) {
		dirs[name] = [2]string{testkit.SyntheticModel(t, name), testkit.Golden("synthetic", name, "golden.json")}
	}
	for _, name := range []string{"tiny-llama", "tiny-qwen2", "tiny-qwen3"} {
		dirs[name] = [2]string{testkit.Golden(name), testkit.Golden(name, "golden.json")}
	}
	return dirs
}

// budgetModel bounds the root mean square of the differences of a row of logits
// to those of a reference with the same roundings, as a share of that of the
// logits: numbers near the middle between two bfloat16 are rounded to the other
// one after additions in another order. A single logit may be off by four times that.
const budgetModel = 0.05

// TestModelsMatchReference runs prompts of every architecture and compares
// logits with the reference's, and the greedy choices with the outputs of
// another implementation wherever the choice is clear.
func TestModelsMatchReference(t *testing.T) {
	for name, paths := range goldenDirs(t) {
		t.Run(name, func(t *testing.T) {
			prompts := testkit.ReadOutputs(t, paths[1]).Prompts
			if !*everyCase { // the longest take the interpreter ten seconds a model
				longest := 17
				if slices.Contains([]string{"mistral", "qwen2-window", "gemma3", "llama-yarn"}, name) {
					longest = 40 // beyond a window, or the context that a model was trained with
				}
				prompts = slices.DeleteFunc(prompts, func(p testkit.PromptOutput) bool { return len(p.IDs) > longest })
			}
			if !onDevice && strings.HasPrefix(name, "tiny-") {
				prompts = prompts[:1]
			}
			ours := newRunner(t, paths[0], newBackend(t), compute.KVBF16)
			rounded := newRoundedRef(t)
			ref := newRunner(t, paths[0], rounded, compute.KVBF16)
			for _, p := range prompts {
				comparePrompt(t, ours, ref, rounded, p)
			}
		})
	}
}

// TestInt4Models runs a model that is stored with weights of four bits, around one zero and with a zero for each group,
// also of experts, and compares logits with those of the numbers that the weights stand for.
func TestInt4Models(t *testing.T) {
	ids := []parley.Token{17, 301, 5, 460}
	for _, c := range []struct{ model, layout string }{
		{"tiny-qwen3", "gptq"}, {"tiny-qwen3", "awq"}, {"qwen3-moe", "gptq"}, {"qwen3-moe", "awq"},
	} {
		stored, widened := testkit.Int4Directories(t, c.model, c.layout)
		rounded := newRoundedRef(t)
		ours := newRunner(t, stored, newBackend(t), compute.KVBF16)
		ref := newRunner(t, widened, rounded, compute.KVBF16)
		got, want := ours.feed(ids, 0), ref.feed(ids, 0)
		compared := 0
		for pos := range got {
			if rounded.ties[pos] {
				continue // another expert is as good
			}
			compared++
			if off := rms(minus(got[pos], want[pos])) / rms(want[pos]); off > budgetModel {
				t.Errorf("%s as %s, position %d: the differences have %.3f of the root mean square, more than %v",
					c.model, c.layout, pos, off, budgetModel)
			}
		}
		if compared < len(ids)/2 {
			t.Errorf("%s as %s: only %d positions were compared", c.model, c.layout, compared)
		}
	}
}

func comparePrompt(t *testing.T, ours, ref *runner, rounded *roundedRef, p testkit.PromptOutput) {
	t.Helper()
	ids := p.IDs[:min(len(p.IDs), runnerRows)]
	got, want := ours.feed(ids, 0), ref.feed(ids, 0)
	compared, worst := 0, 0.0
	for pos := range got {
		if rounded.ties[pos] {
			continue // another expert is as good
		}
		if err := computetest.Differ(got[pos], want[pos], 4*budgetModel); err != nil {
			t.Errorf("position %d: %v", pos, err)
		}
		off := rms(minus(got[pos], want[pos])) / rms(want[pos])
		worst = max(worst, off)
		if off > budgetModel {
			t.Errorf("position %d: the differences have %.3f of the root mean square, more than %v", pos, off,
				budgetModel)
		}
		token, _ := best(got[pos])
		expected, ahead := best(want[pos])
		if ahead < 8*budgetModel*rms(want[pos]) {
			continue
		}
		compared++
		if token != expected || token != p.ArgmaxByPosition[pos] {
			t.Errorf("position %d: the best token is %d, the reference's %d, the golden one %d", pos, token, expected,
				p.ArgmaxByPosition[pos])
		}
	}
	if ties := len(rounded.ties); ties > max(1, len(got)/2) {
		t.Errorf("%d of %d rows have nearly tied experts: too little was compared", ties, len(got))
	}
	t.Logf("differences of at most %.4f; %d of %d choices are compared", worst, compared, len(got))
}

func minus(a, b []float32) []float32 {
	d := make([]float32, len(a))
	for i := range a {
		d[i] = a[i] - b[i]
	}
	return d
}

func rms(x []float32) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(len(x)))
}
