package model

import (
	"slices"
	"strings"
	"testing"

	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/testkit"
	"parley/model/weights"
)

// TestFP8Directories runs a golden model that is stored with FP8 weights. On the
// processor it must have the bits of the same numbers rounded to BF16, and stay
// close to the reference with the numbers themselves.
func TestFP8Directories(t *testing.T) {
	const name = "tiny-qwen3"
	for layout := range testkit.FP8Layouts {
		t.Run(layout, func(t *testing.T) {
			stored, widened := testkit.FP8Directories(t, name, layout)
			rounded := testkit.FP8AsBF16(t, name, widened)
			run := func(dir string, be compute.Backend) *runner {
				return (&golden{name: name, dir: dir, rounded: true}).runner(t, be)
			}
			fast, brain := run(stored, newFast(t, 1, "")), run(rounded, newFast(t, 2, ""))
			exact, reference := run(widened, cpu.NewRef()), run(stored, cpu.NewRef())
			var distance float64
			positions := 0
			for _, p := range testkit.ReadOutputs(t, testkit.Golden(name, "golden.json")).Prompts[:2] {
				var logits [4][][]float32
				for i, r := range []*runner{fast, brain, exact, reference} {
					r.past = 0
					logits[i] = r.feed(p.IDs)
				}
				for i := range p.IDs {
					if !slices.Equal(logits[0][i], logits[1][i]) {
						t.Fatalf("position %d has other logits than as BF16", i)
					}
					if !slices.Equal(logits[3][i], logits[2][i]) {
						t.Fatalf("position %d of the reference has other logits than as F32", i)
					}
					distance += kl(logits[2][i], logits[0][i])
					positions++
				}
			}
			t.Logf("KL %.7f nats over %d positions", distance/float64(positions), positions)
			if mean := distance / float64(positions); !(mean < 1e-4) {
				t.Errorf("KL %.6f nats from the exact numbers, want less than 0.0001", mean)
			}
		})
	}
}

// An uploads is a backend that remembers the types of what it is given.
type uploads struct {
	*cpu.Ref
	types map[string]weights.DType
}

// Upload remembers the type.
func (u *uploads) Upload(t weights.Tensor) (compute.Weight, error) {
	u.types[t.Name] = t.Type
	return u.Ref.Upload(t)
}

// UploadTable remembers the type.
func (u *uploads) UploadTable(t weights.Tensor) (compute.Weight, error) {
	u.types[t.Name] = t.Type
	return u.Ref.UploadTable(t)
}

// TestRoundF8 rounds models when they are loaded: the matrices of layers, and no others.
func TestRoundF8(t *testing.T) {
	for _, g := range goldens(t) {
		ck, err := weights.Open(g.dir)
		if err != nil {
			t.Fatal(err)
		}
		be := &uploads{cpu.NewRef(), map[string]weights.DType{}}
		if _, err := Load(ck, be, Limits{Rows: 16, Outputs: 16, Blocks: 2, RoundF8: true}); err != nil {
			t.Fatal(err)
		}
		for name, kind := range be.types {
			matrix := strings.HasPrefix(name, "blk.") && !strings.HasSuffix(name, ".bias") &&
				!strings.Contains(name, "norm") && !strings.HasSuffix(name, "ffn_gate_inp.weight")
			if (kind == weights.F8E4M3) != matrix {
				t.Errorf("%s: %s is loaded as %s", g.name, name, kind)
			}
		}
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRoundedStaysClose compares trained models before and after rounding.
func TestRoundedStaysClose(t *testing.T) {
	for _, name := range []string{"tiny-llama", "tiny-qwen2", "tiny-qwen3"} {
		ck, err := weights.Open(testkit.Golden(name))
		if err != nil {
			t.Fatal(err)
		}
		var logits [2][][]float32
		ids := testkit.ReadOutputs(t, testkit.Golden(name, "golden.json")).Prompts[0].IDs
		for i, round := range []bool{false, true} {
			m, err := Load(ck, cpu.NewRef(), Limits{Rows: 64, Outputs: 64, Blocks: 8, RoundF8: round})
			if err != nil {
				t.Fatal(err)
			}
			r := &runner{m: m, blocks: []int32{0, 1, 2, 3, 4, 5, 6, 7}}
			logits[i] = r.feed(ids[:min(len(ids), 64)])
		}
		var sum float64
		for i := range logits[0] {
			sum += kl(logits[0][i], logits[1][i])
		}
		mean := sum / float64(len(logits[0]))
		t.Logf("%s: KL %.5f nats", name, mean)
		if !(mean > 0 && mean < 0.02) {
			t.Errorf("%s: KL %.5f nats between stored and rounded weights", name, mean)
		}
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	}
}
