package model

import (
	"testing"

	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/testkit"
	"parley/model/weights"
)

// TestInt4Directories runs a golden model that is stored with weights of four bits. It stays close to the reference
// with the numbers that they stand for, whichever type they are loaded as.
func TestInt4Directories(t *testing.T) {
	const name = "tiny-qwen3"
	ids := testkit.ReadOutputs(t, testkit.Golden(name, "golden.json")).Prompts[0].IDs
	ids = ids[:min(len(ids), 64)]
	logits := func(dir string, be compute.Backend, narrow bool) [][]float32 {
		ck, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		m, err := Load(ck, be, Limits{Rows: 64, Outputs: 64, Blocks: 8, Narrow: narrow})
		if err != nil {
			t.Fatal(err)
		}
		return (&runner{m: m, blocks: []int32{0, 1, 2, 3, 4, 5, 6, 7}}).feed(ids)
	}
	for layout := range testkit.Int4Layouts {
		t.Run(layout, func(t *testing.T) {
			stored, widened := testkit.Int4Directories(t, name, layout)
			want := logits(widened, cpu.NewRef(), false)
			for _, narrow := range []bool{false, true} {
				distance := 0.0
				for i, got := range logits(stored, newFast(t, 2, ""), narrow) {
					distance += kl(want[i], got)
				}
				mean := distance / float64(len(ids))
				t.Logf("narrow %t: KL %.7f nats", narrow, mean)
				if !(mean < 2e-3) {
					t.Errorf("narrow %t: KL %.6f nats from the exact numbers, want less than 0.002", narrow, mean)
				}
			}
		})
	}
}
