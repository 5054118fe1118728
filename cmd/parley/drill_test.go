package main

import (
	"encoding/json"
	"os/exec"
	"testing"
)

// TestDrills practises each failure for real.
func TestDrills(t *testing.T) {
	for _, d := range drills {
		t.Run(d.name, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), "parley", "drill", d.name, "--json").Output()
			var report drillReport
			if json.Unmarshal(out, &report) != nil || err != nil || !report.Held || len(report.Phases) != 3 || len(report.Checks) < 4 {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
