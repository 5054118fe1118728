package model

import (
	"slices"
	"testing"

	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/testkit"
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
			fast, brain := run(stored, newFast(t, 2, "")), run(rounded, newFast(t, 2, ""))
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
