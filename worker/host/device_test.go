package host

import (
	"log/slog"
	"strings"
	"testing"

	"parley/compute/cuda"
	"parley/internal/testkit"
	"parley/model/weights"
)

func TestParseDevice(t *testing.T) {
	for name, want := range map[string]int{"auto": 0, "": 0, "cpu": 0, "cuda": 0, "cuda:3": 3} {
		if got, err := ParseDevice(name); err != nil || got != want {
			t.Errorf("%q is %d, %v", name, got, err)
		}
	}
	for _, name := range []string{"gpu", "cuda:", "cuda:-1", "cuda:x", "CPU"} {
		if _, err := ParseDevice(name); err == nil || !strings.Contains(err.Error(), "cuda:N") {
			t.Errorf("%q gives %v", name, err)
		}
	}
}

// TestWithoutGPUTheProcessorServes plans on a machine without a GPU: auto says
// why it computes on the processor, and a GPU that is asked for is an error.
func TestWithoutGPUTheProcessorServes(t *testing.T) {
	if _, err := cuda.Devices(); err == nil {
		t.Skip("this machine has a GPU")
	}
	for _, name := range []string{"auto", "", "cpu"} {
		var log strings.Builder
		ck, err := weights.Open(testkit.Golden("tiny-llama"))
		if err != nil {
			t.Fatal(err)
		}
		candidates := []Candidate{{ck, Config{DeviceName: name}}}
		plans, available, err := PlanDevice(candidates, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || len(plans) != 1 || available <= 0 || plans[0].cfg.Device.GPU {
			t.Errorf("%q: %d plans of %d bytes, %v", name, len(plans), available, err)
		}
		if said := strings.Contains(log.String(), "using the CPU"); said != (name != "cpu") {
			t.Errorf("%q: the log says %q", name, log.String())
		}
		if err := ck.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := PlanDevice([]Candidate{{nil, Config{DeviceName: "cuda:0"}}},
		slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a GPU that is not there was accepted")
	}
}

// TestPlanForGPU counts device memory alone, and says what would fit.
func TestPlanForGPU(t *testing.T) {
	ck, err := weights.Open(testkit.Golden("tiny-llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	gpu := Config{Device: Device{GPU: true, Name: "test"}, KVHostBytes: 1 << 40}
	plans, err := PlanMemory([]Candidate{{ck, gpu}}, 8<<30)
	if err != nil {
		t.Fatal(err)
	}
	if p := plans[0]; p.cfg.StepTokens != stepTokensGPU || p.Bytes() > 8<<30 || p.KVTokens < 100_000 {
		t.Errorf("the plan is %+v", p)
	}
	gpu.KVTokens = 1 << 30
	if _, err := PlanMemory([]Candidate{{ck, gpu}}, 8<<30); err == nil || !strings.Contains(err.Error(), "would fit") {
		t.Errorf("a pool that is too large gives %v", err)
	}
}
