package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/compute/cuda"
	"parley/internal/testkit"
	"parley/model/weights"
)

// TestInt4ModelsAreToldApart wants another name for what depends on weights of four bits when a code of one changes,
// and plans that count them as the type that the device computes with.
func TestInt4ModelsAreToldApart(t *testing.T) {
	dir, _ := testkit.Int4Directories(t, "tiny-qwen3", "awq")
	open := func() *weights.Checkpoint {
		ck, err := weights.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ck.Close() })
		return ck
	}
	before := open()
	file := filepath.Join(dir, "model.safetensors")
	all := testkit.ReadSafetensors(t, file)
	all["model.layers.0.self_attn.q_proj.qweight"].Data[0] ^= 1
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.WriteSafetensors(t, filepath.Join(dir, "model.safetensors"), all)
	names := map[[32]byte]bool{}
	for _, ck := range []*weights.Checkpoint{before, before, open()} {
		names[newPlan(Candidate{ck, Config{}}).fingerprint("cpu", "bf16")] = true
	}
	if len(names) != 2 {
		t.Errorf("two models have %d names", len(names))
	}
	p := newPlan(Candidate{before, Config{Device: Device{GPU: true, Name: "an H200", Major: 9}}})
	want := int64(0)
	for _, tensor := range before.Tensors() {
		if strings.HasPrefix(tensor.Name, "blk.") && len(tensor.Shape) == 2 {
			tensor.Type = weights.Q5_0
		}
		want += cuda.WeightBytes(tensor)
	}
	if p.WeightBytes != want || !p.limits().Narrow {
		t.Errorf("weights take %d bytes on a GPU, want %d", p.WeightBytes, want)
	}
}
