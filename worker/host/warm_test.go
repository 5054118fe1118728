package host

import (
	"fmt"
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/fleet/discover"
)

// joinWorker lets one more worker join a fleet.
func joinWorker(t *testing.T, f *fleet.Fleet, name, url string) {
	t.Helper()
	m, err := fleet.Dialer{Pool: "default", ParleyKey: transferKey}.Connect(t.Context(),
		discover.Address{Name: name, URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Join(m); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, f, name, func(s *fleet.Standing) bool { return s.State == fleet.Up })
}

// TestAWorkerThatJoinsIsWarm asks one worker, lets a second one join, and takes the first
// away: the first request on the second one hits, with all types of the pool, for the
// tenant that asked and for no other. One that sleeps and wakes is warm again.
func TestAWorkerThatJoinsIsWarm(t *testing.T) {
	for kind := range compute.KVType(compute.KVTypes) {
		for _, role := range []parley.WorkerRole{"", parley.RolePrefill, parley.RoleDecode} {
			if role != "" && kind > 0 {
				continue
			}
			t.Run(fmt.Sprint(kind, role), func(t *testing.T) {
				model := Config{KVTokens: 8192, ContextTokens: 2048, KVType: kind}
				a, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
				b, urlB := startWorker(t, ServerConfig{Key: transferKey, Role: role}, model)
				f := startFleet(t, urlA)
				r := transferPrompt(t, a)
				first, _, _ := askFleet(t, f, r)
				full := len(r.Prompt) / compute.BlockTokens
				awaitStanding(t, f, "w0", func(s *fleet.Standing) bool { return s.Blocks > full })
				joinWorker(t, f, "w1", urlB)
				warmed(t, f, full)
				next := *r
				next.Prompt = slices.Concat(r.Prompt, first, r.Prompt[:20])
				want, _, _ := askTransfer(t, a, &next)
				if err := f.Drain("w0", -1); err != nil {
					t.Fatal(err)
				}
				got, u, all := askFleet(t, f, &next)
				if !slices.Equal(got, want) || u.CachedTokens < full*compute.BlockTokens || len(all) != 1 ||
					all[0].Worker != "w1" || all[0].Transfer != nil {
					t.Errorf("%v, want %v; %d of %d tokens cached; %+v", got, want, u.CachedTokens, len(next.Prompt),
						all)
				}
				other := next
				other.Salt[0]++
				if _, u, _ := askFleet(t, f, &other); u.CachedTokens != 0 {
					t.Errorf("another tenant finds %d tokens", u.CachedTokens)
				}
				if err := f.Resume("w0"); err != nil {
					t.Fatal(err)
				}
				sleepAndWake(t, f, full)
				sound(t, a, b)
			})
		}
	}
}

// warmed wants blocks to have come to the second worker before it got requests.
func warmed(t *testing.T, f *fleet.Fleet, full int) {
	t.Helper()
	awaitStanding(t, f, "w1", func(s *fleet.Standing) bool {
		if w := s.WarmUp; s.State == fleet.Up && (w == nil || w.Tokens < full*compute.BlockTokens || w.Miss != "") {
			t.Fatalf("%+v", w)
		}
		return s.State == fleet.Up
	})
}

func sleepAndWake(t *testing.T, f *fleet.Fleet, full int) {
	t.Helper()
	if err := f.Sleep("w1", -1); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, f, "w1", func(s *fleet.Standing) bool { return s.State == fleet.Asleep })
	if err := f.Wake("w1"); err != nil {
		t.Fatal(err)
	}
	awaitStanding(t, f, "w1", func(s *fleet.Standing) bool { return s.State == fleet.Up })
	warmed(t, f, full)
}

// TestAWarmUpWithoutItsSource lets a worker join whose only source refuses: it is up at
// once, and computes.
func TestAWarmUpWithoutItsSource(t *testing.T) {
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	a, urlA := startWorker(t, ServerConfig{Key: transferKey}, model)
	b, urlB := startWorker(t, ServerConfig{Key: transferKey}, model)
	f := startFleet(t, urlA)
	r := transferPrompt(t, a)
	want, _, _ := askFleet(t, f, r)
	full := len(r.Prompt) / compute.BlockTokens
	awaitStanding(t, f, "w0", func(s *fleet.Standing) bool { return s.Blocks > full })
	if err := a.Sleep(false); err != nil { // which the gateway does not know yet
		t.Fatal(err)
	}
	joinWorker(t, f, "w1", urlB)
	got, _, all := askFleet(t, f, r)
	if last := all[len(all)-1]; !slices.Equal(got, want) || last.Worker != "w1" {
		t.Errorf("%v, want %v; %+v", got, want, all)
	}
	sound(t, b)
}
