package host

import (
	"testing"

	"parley"
	"parley/engine/sched"
)

// TestClassesReachTheScheduler looks where the shares of classes go.
func TestClassesReachTheScheduler(t *testing.T) {
	c := Config{Classes: [parley.Classes]ClassShare{parley.Free: {Weight: 2, KVShare: 0.25},
		parley.Enterprise: {KVReserve: 0.5}}}
	got := c.shared(sched.Config{Blocks: 64})
	if got.Blocks != 64 || got.Weights != [parley.Classes]float64{parley.Free: 2} ||
		got.CacheShares != [parley.Classes]float64{parley.Free: 0.25} ||
		got.Reserve != [parley.Classes]float64{parley.Enterprise: 0.5} {
		t.Errorf("the scheduler is told %+v", got)
	}
}
