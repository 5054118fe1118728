package main

import (
	"encoding/json"
	"os/exec"
	"testing"

	"parley/cli/drill"
)

// TestDrills practises each failure for real, on a gateway with two workers, and
// one where the gateway computes itself.
func TestDrills(t *testing.T) {
	practise := func(t *testing.T, workers int, args ...string) {
		out, err := exec.CommandContext(t.Context(), "parley",
			append(append([]string{"drill"}, args...), "--json")...).Output()
		var report drill.DrillReport
		if json.Unmarshal(out, &report) != nil || err != nil || !report.Held || report.Workers != workers ||
			len(report.Phases) != 3 || len(report.Checks) < 4 {
			t.Errorf("%v: %s", err, out)
		}
	}
	for _, c := range drill.New().Commands() {
		t.Run(c.Name(), func(t *testing.T) { practise(t, 2, c.Name()) })
	}
	t.Run("alone", func(t *testing.T) { practise(t, 0, "cascade", "--workers", "0") })
}
