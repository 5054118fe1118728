package host

import (
	"strings"
	"testing"

	"parley/compute/cpu"
	"parley/internal/testkit"
	"parley/model/weights"
)

// TestPlanCountsFP8AsBF16 plans a model with FP8 weights on the processor, which computes
// with them as BF16.
func TestPlanCountsFP8AsBF16(t *testing.T) {
	stored, widened := testkit.FP8Directories(t, "tiny-qwen3", "block")
	var matrices [2]int64
	for i, dir := range []string{stored, testkit.FP8AsBF16(t, "tiny-qwen3", widened)} {
		ck, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		p := newPlan(Candidate{ck, Config{}})
		matrices[i] = p.WeightBytes
		for _, other := range ck.Tensors() {
			if strings.HasSuffix(other.Name, "_scale_inv") {
				matrices[i] -= cpu.PackedBytes(other.Type, other.Rows(), other.Cols())
			}
		}
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	}
	if matrices[0] != matrices[1] {
		t.Errorf("FP8 weights take %d bytes, as BF16 %d", matrices[0], matrices[1])
	}
}
