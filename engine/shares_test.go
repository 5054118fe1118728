package engine

import (
	"fmt"
	"testing"

	"parley"
	"parley/engine/kv"
)

// TestTiersLoseTheirOwnBlocksFirst floods the pool with prompts of free tenants
// after one of a paying tenant. With a share for the free tier its own blocks are
// evicted, and the older ones of the paying tenant stay; without one those go
// first, as they were not used for the longest time.
func TestTiersLoseTheirOwnBlocksFirst(t *testing.T) {
	for _, c := range []struct {
		share  float64
		cached int
		miss   string
	}{{0.25, 96, "none"}, {0, 0, "evicted"}} {
		t.Run(fmt.Sprint("share ", c.share), func(t *testing.T) {
			cfg := small
			cfg.CacheShares[parley.Free] = c.share
			cfg.Cache.Policy = kv.LRU // so that what goes is known beforehand
			e := newCounter(t, &counter{}, cfg)
			ask := func(class parley.Class, tenant string) *parley.Usage {
				prompt := make([]parley.Token, 97)
				for i := range prompt {
					prompt[i] = parley.Token(len(tenant)*13+i) % 90
				}
				_, last, err := collect(t.Context(), e,
					&parley.Request{Prompt: prompt, MaxTokens: 1, Class: class, Tenant: tenant})
				if err != nil {
					t.Fatal(err)
				}
				return last.Usage
			}
			ask(parley.Enterprise, "e")
			for n := range 12 { // 72 blocks, and the pool has 40
				ask(parley.Free, fmt.Sprintf("%0*d", n+2, 0))
			}
			if u := ask(parley.Enterprise, "e"); u.CachedTokens != c.cached || u.Miss != c.miss {
				t.Errorf("the paying tenant's prompt: %d tokens are cached, %s", u.CachedTokens, u.Miss)
			}
			if u := ask(parley.Free, "00"); u.CachedTokens != 0 || u.Miss != "evicted" {
				t.Errorf("the first free prompt: %d tokens are cached, %s", u.CachedTokens, u.Miss)
			}
		})
	}
}

// TestTenantsLoseTheirOwnBlocksFirst floods the pool with prompts of one tenant of a
// class after one of another tenant of it. Where tenants of the class may keep a
// quarter, the flood evicts itself; where they may keep all, it evicts the other
// tenant's prompt.
func TestTenantsLoseTheirOwnBlocksFirst(t *testing.T) {
	for _, c := range []struct {
		share  float64
		cached int
	}{{0.25, 96}, {1, 0}} {
		cfg := small
		cfg.TenantShares[parley.Pro] = c.share
		cfg.Cache.Policy = kv.LRU
		e := newCounter(t, &counter{}, cfg)
		ask := func(tenant string, number int) int {
			r := &parley.Request{Prompt: long(number, 97), MaxTokens: 1, Class: parley.Pro, Tenant: tenant}
			_, last, err := collect(t.Context(), e, r)
			if err != nil {
				t.Fatal(err)
			}
			return last.Usage.CachedTokens
		}
		ask("quiet", 1)
		for n := range 12 { // 72 blocks, and the pool has 40
			ask("loud", 5+2*n)
		}
		if got := ask("quiet", 1); got != c.cached {
			t.Errorf("with a share of %g the quiet tenant found %d tokens, wanted %d", c.share, got, c.cached)
		}
	}
}
