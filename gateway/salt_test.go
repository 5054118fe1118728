package gateway

import (
	"slices"
	"testing"
	"testing/synctest"

	"parley"
	"parley/gateway/tenant"
)

// TestTenantsAreKeptApart looks at the salts of workers' requests: each tenant has
// one, which is always the same and which the client cannot choose.
func TestTenantsAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w)
		who := tenant.Identity{}
		s.gateway.who = func(*call) (tenant.Identity, error) { return who, nil }
		for i, name := range []string{"a", "b", "a"} {
			who.Organization = name
			s.chat(`,"seed":` + itoa(i) + `,"cache_salt":"mine","prompt_cache_key":"mine"`)
		}
		if len(w.asked) != 3 || w.asked[0].Salt == w.asked[1].Salt || w.asked[0].Salt != w.asked[2].Salt || w.asked[0].Salt == (parley.Salt{}) {
			t.Errorf("%d requests, salts %v", len(w.asked), w.asked)
		}
	})
	g, other := &Gateway{}, &Gateway{}
	g.config.SaltKey, other.config.SaltKey = []byte("one"), []byte("two")
	if g.saltOf("a") == other.saltOf("a") {
		t.Error("the key does not count")
	}
}

// TestPublicBeginnings counts the tokens of a prompt that all tenants share.
func TestPublicBeginnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const public = "You are a helpful assistant."
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w, func(c *Config) { c.PublicPrompts = []string{public, "Another one."} })
		s.chat(``)
		got := w.request(t)
		want := tokensOf(t, "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n")
		if got.Public != len(want) || !slices.Equal(got.Prompt[:got.Public], want) {
			t.Errorf("%d tokens are public, want %d", got.Public, len(want))
		}
	})
}
