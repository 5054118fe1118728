package fleet

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHedgesThatAreNotSent has nobody else to ask, or no budget for it: what was not
// sent is not counted, and costs nothing.
func TestHedgesThatAreNotSent(t *testing.T) {
	cfg := Config{HedgeAfter: 5 * time.Millisecond, SlowStart: -1, ReplayShare: 1e-9}
	for name, test := range map[string]struct {
		pools []string // of each worker
		burst int
	}{
		"alone":           {[]string{"default"}, 1 << 10},
		"alone in a pool": {[]string{"default", "spare"}, 1 << 10},
		"without budget":  {[]string{"default", "default"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := cfg
				cfg.ReplayBurst = test.burst
				spare := DefaultPool()
				spare.Name = "spare"
				cfg.Pools = []Pool{DefaultPool(), spare}
				var members []Member
				for i, pool := range test.pools {
					m := joiner(string(rune('a'+i)), newFrail(newOracle(t, 20*time.Millisecond)))
					m.Pool = pool
					members = append(members, m)
				}
				f := newFleet(t, cfg, members...)
				time.Sleep(time.Second)
				if _, err := hear(t.Context(), f, ask(4)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				var sent, moved uint64
				for _, s := range f.Standings() {
					sent, moved = sent+s.Sent, moved+s.Moved
				}
				if sent != 1 || moved != 0 || f.budgets["default"].left != float64(test.burst) {
					t.Errorf("%d were sent and %d moved of one request; %g is left of %d", sent, moved,
						f.budgets["default"].left, test.burst)
				}
			})
		})
	}
}
