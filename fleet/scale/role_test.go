package scale

import (
	"testing"
	"time"

	"parley"
)

// TestRoles has a queue of requests: they wait for memory, or for prompts to be computed, and only
// the part that they wait for grows.
func TestRoles(t *testing.T) {
	plan := func(name parley.WorkerRole, kv, decodeKV float64) int {
		r := newRun(t, Config{Min: 1, Max: 100, Rate: 100})
		state := State{Ready: 40, Queued: 500, Wait: 8 * time.Second, KV: kv, Streams: 10}
		return r.s.Plan(PoolPart{Name: name, DecodeKV: decodeKV}.See(state), r.now).Workers
	}
	for _, c := range []struct {
		name         parley.WorkerRole
		kv, decodeKV float64
		least, most  int
	}{
		{parley.RolePrefill, 0.95, 0.5, 41, 80}, // memory is free where answers are written
		{parley.RoleDecode, 0.5, 0.5, 1, 40},
		{parley.RolePrefill, 0.95, 0.95, 1, 40}, // it is not
		{parley.RoleDecode, 0.95, 0.95, 41, 80},
		{"", 0.5, 0.95, 41, 80}, // workers of both roles: no other role to wait for
	} {
		if n := plan(c.name, c.kv, c.decodeKV); n < c.least || n > c.most {
			t.Errorf("with %.2f of the memory for answers in use, 40 workers for %q become %d; want %d to %d",
				c.decodeKV, c.name, n, c.least, c.most)
		}
	}
}
