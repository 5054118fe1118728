package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"parley/fleet"
	"parley/fleet/discover"
)

// TestAbsentees notes a worker that cannot join, with the reason, until it joins or leaves the configuration.
func TestAbsentees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a absentees
		fails := errors.New("connection refused")
		connect := a.watch("p", func(context.Context, discover.Address) (fleet.Member, error) {
			return fleet.Member{}, fails
		})
		at := discover.Address{Name: "w", Kind: "vllm"}
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = connect(ctx, at)
		_, _ = connect(ctx, at)
		if got := a.list(); len(got) != 1 || got[0].Name != "w" || got[0].Pool != "p" || got[0].Kind != "vllm" ||
			got[0].State != fleet.Joining || got[0].Trouble != "connection refused" {
			t.Errorf("%+v", got)
		}
		fails = nil
		_, _ = connect(ctx, at)
		if got := a.list(); len(got) != 0 {
			t.Errorf("when it has joined: %+v", got)
		}
		fails = errors.New("gone")
		_, _ = connect(ctx, at)
		cancel()
		synctest.Wait()
		if got := a.list(); len(got) != 0 {
			t.Errorf("when it is not known any more: %+v", got)
		}
	})
}
