package gateway

import (
	"slices"
	"testing"
	"testing/synctest"

	"parley"
	"parley/gateway/tenant"
)

// TestTenantsAreKeptApart looks at the salts of workers' requests: each tenant has
// one, which is always the same. A client can divide what its tenant shares by a salt of its
// own, but not reach that of another tenant.
func TestTenantsAreKeptApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w)
		organization := ""
		s.gateway.who = func(*call) (*tenant.Identity, error) {
			return &tenant.Identity{Organization: organization}, nil
		}
		for i, name := range []string{"a", "b", "a"} {
			organization = name
			s.chat(`,"seed":` + itoa(i) + `,"cache_salt":"mine","prompt_cache_key":"mine"`)
		}
		if len(w.asked) != 3 || w.asked[0].Salt == w.asked[1].Salt || w.asked[0].Salt != w.asked[2].Salt ||
			w.asked[0].Salt == (parley.Salt{}) {
			t.Errorf("%d requests, salts %v", len(w.asked), w.asked)
		}
		s.chat(`,"seed":4,"cache_salt":"other"`)
		s.chat(`,"seed":5`)
		s.chat(`,"seed":6,"extra_key":"mine"`)
		if w.asked[3].Salt == w.asked[2].Salt || w.asked[4].Salt == w.asked[2].Salt ||
			w.asked[5].Salt != w.asked[2].Salt {
			t.Error("the salt of a client changes nothing")
		}
	})
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
		if got.PublicTokens != len(want) || !slices.Equal(got.Prompt[:got.PublicTokens], want) {
			t.Errorf("%d tokens are public, want %d", got.PublicTokens, len(want))
		}
	})
}

// TestSessionsOfRequests looks by which name a router keeps requests together: the
// conversation, else prompt_cache_key, else the user that the request names, in
// Anthropic's API metadata.user_id; the tenant is a part of each.
func TestSessionsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "yes", 0)}
		s := start(t, w)
		s.gateway.who = byKey
		last := func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.asked[len(w.asked)-1].Session
		}
		for _, c := range []struct{ extra, want string }{
			{``, ""},
			{`,"user":"anna"`, "pro-acme user anna"},
			{`,"user":"anna","prompt_cache_key":"k"`, "pro-acme prompt_cache_key k"},
			{`,"user":"anna","safety_identifier":"bob"`, "pro-acme user bob"},
		} {
			if response, body, err := s.send(t.Context(), "pro-acme", c.extra); err != nil ||
				response.StatusCode != 200 {
				t.Fatal(err, body)
			}
			if got := last(); got != c.want {
				t.Errorf("%s: the session is %q, want %q", c.extra, got, c.want)
			}
		}
		for metadata, want := range map[string]string{`{"user_id":"anna"}`: "pro-acme user anna", `{}`: "",
			`{"user_id":null}`: "", `null`: ""} {
			response, body := s.do("POST", "/v1/messages", `{"model":"`+modelID+
				`","max_tokens":5,"messages":[{"role":"user","content":"Hi"}],"metadata":`+metadata+`}`,
				bearer("pro-acme")...)
			if got := last(); response.StatusCode != 200 || got != want {
				t.Errorf("%s: %d, the session is %q, want %q: %s", metadata, response.StatusCode, got, want, body)
			}
		}
		kept := startKept(t, w, untitled)
		_, made := kept.call("POST", "/v1/conversations", `{}`)
		id := made.text("id")
		kept.call("POST", "/v1/conversations/"+id+"/messages", `{"model":"`+modelID+`","content":"Hi","user":"anna"}`)
		if got := last(); got != "local conversation "+id {
			t.Errorf("the session of a turn is %q", got)
		}
		kept.call("POST", "/v1/responses",
			`{"model":"`+modelID+`","input":"Hi","prompt_cache_key":"k","conversation":"`+id+`"}`)
		if got := last(); got != "local conversation "+id {
			t.Errorf("the session of a response in a conversation is %q", got)
		}
	})
}
