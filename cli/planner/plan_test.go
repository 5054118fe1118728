package planner

import (
	"io"
	"testing"

	"parley/compute"
	"parley/internal/builtin"
	"parley/model/weights"
	"parley/sim/plan"
)

// TestPlansAgreeWithTheEngine: the bytes of a token and the size of a block in
// plans are those that the engine allocates.
func TestPlansAgreeWithTheEngine(t *testing.T) {
	ck, err := builtin.Models()[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	planner := plan.New()
	planner.Catalog.Models["file"] = checkpointShape(ck)
	scales := map[string]string{"int8": "2", "fp8": "2"}
	for _, cost := range weights.Describe(ck).KVCache {
		settings := plan.Settings{"model": "file", "kv": cost.Type}
		if scale := scales[cost.Type]; scale != "" {
			settings["kv_scale"] = scale
		}
		r, err := planner.Plan(settings)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Values["kv_token"]; got != float64(cost.BytesPerToken) {
			t.Errorf("%s: a token has %g bytes in a plan and %d in a pool", cost.Type, got, cost.BytesPerToken)
		}
		if got := r.Values["block"]; got != compute.BlockTokens {
			t.Errorf("a block has %g tokens in a plan and %d in a pool", got, compute.BlockTokens)
		}
	}
}

// TestThisMachineIsMeasured: what is measured has the order of a machine.
func TestThisMachineIsMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of all processors")
	}
	profile, err := measureMachine(io.Discard, plan.New().Catalog)
	if err != nil {
		t.Fatal(err)
	}
	for cell, least := range map[string]float64{"memory": 1e8, "bandwidth": 1e8, "flops": 1e8} {
		if profile[cell] < least || profile[cell] > 1e16 {
			t.Errorf("%s is %g", cell, profile[cell])
		}
	}
}
