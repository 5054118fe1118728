package host

import (
	"log/slog"
	"strings"
	"testing"

	"parley/compute/cpu"
	"parley/compute/cuda"
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

// TestRoundedWeightsNeedTheirDevice plans FP8 weights on devices that compute with them, and
// on ones that do not.
func TestRoundedWeightsNeedTheirDevice(t *testing.T) {
	ck, err := weights.Open(testkit.Golden("tiny-qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	for want, d := range map[string]Device{
		"and the models compute on the CPU":  {},
		"and an L4 has 8.9":                  {GPU: true, Name: "an L4", Major: 8, Minor: 9},
		"and a B200 has 10.0":                {GPU: true, Name: "a B200", Major: 10},
		"compute capability 9.0, such as an": {GPU: true, Name: "an A100", Major: 8},
	} {
		_, err := PlanMemory([]Candidate{{ck, Config{Device: d, RoundF8: true}}}, 8<<30)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: error %v, want %q", d, err, want)
		}
	}
	if _, _, err := PlanDevice([]Candidate{{ck, Config{DeviceName: DeviceCPU, RoundF8: true}}},
		slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--weights fp8 needs a GPU") {
		t.Errorf("a plan for the CPU gives %v", err)
	}
	hopper := Config{Device: Device{GPU: true, Name: "an H200", Major: 9}, RoundF8: true}
	plans, err := PlanMemory([]Candidate{{ck, hopper}}, 8<<30)
	if err != nil {
		t.Fatal(err)
	}
	var want int64
	rounded := 0
	for _, tensor := range ck.Tensors() {
		if strings.Contains(tensor.Name, "blk.") && len(tensor.Shape) == 2 {
			tensor.Type = weights.F8E4M3
			rounded++
		}
		want += cuda.WeightBytes(tensor)
	}
	if p := plans[0]; p.WeightBytes != want || p.Weights != "fp8" || !p.limits().RoundF8 ||
		rounded != 7*ck.Config.Layers {
		t.Errorf("%d matrices of %s weights take %d bytes, want %d", rounded, p.Weights, p.WeightBytes, want)
	}
}

// TestRoundedWeightsShareNoBlocks wants other names for what depends on rounded weights: blocks on
// the disk, blocks that workers exchange, and remembered paces.
func TestRoundedWeightsShareNoBlocks(t *testing.T) {
	ck, err := weights.Open(testkit.Golden("tiny-qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	backend, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	plan := func(rounded bool) *Plan {
		return newPlan(Candidate{ck, Config{DataDir: t.TempDir(), RoundF8: rounded}})
	}
	stored, again, rounded := plan(false), plan(false), plan(true)
	if stored.fingerprint("", "") != again.fingerprint("", "") ||
		stored.fingerprint("", "") == rounded.fingerprint("", "") {
		t.Error("fingerprints do not tell rounded weights from stored ones")
	}
	h := &Host{ck: ck, backend: backend}
	a, b, c := stored.format(h), again.format(h), rounded.format(h)
	if a.Difference(&b) != "" || a.Difference(&c) == "" || a.Digest() == c.Digest() {
		t.Errorf("formats differ by %q and %q", a.Difference(&b), a.Difference(&c))
	}
	if stored.paceMemory(backend).of == rounded.paceMemory(backend).of {
		t.Error("paces of stored weights are remembered for rounded ones")
	}
}
