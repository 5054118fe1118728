package gateway

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/tenant"
	"parley/limit"
)

// TestEveryRouteCounts asks twice on every route there is for callers, with bodies
// that no endpoint takes, and a limit of one request of each class a minute: the
// second is refused before anything is looked at.
func TestEveryRouteCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := must(batch.Open(filepath.Join(t.TempDir(), "files"), batch.Limits{}))(t)
		t.Cleanup(func() { files.Close() })
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t), func(c *Config) { c.Batches = files })
		closing(t, s)
		tried := 0
		try := func(r *route, method string) {
			limits := limit.Limits{RequestsPerMinute: 1, LightRequestsPerMinute: 1}
			s.gateway.who = func(*call) (*tenant.Identity, error) {
				return &tenant.Identity{Organization: method + r.name, Key: "key_1", Tier: parley.Pro, Limits: limits},
					nil
			}
			path := strings.NewReplacer("{id}", "none", "{item}", "none").Replace(r.name)
			if path == modelsPrefix {
				path += "none"
			}
			first, _ := s.do(method, path, `{"model":1}`)
			second, body := s.do(method, path, `{"model":1}`)
			if first.StatusCode == 429 || second.StatusCode != 429 || second.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d, then %d: %s", method, path, first.StatusCode, second.StatusCode, body)
			}
			tried++
		}
		each(s.gateway, func(r *route, method string) {
			if strings.HasPrefix(r.name, "/v1/") && method != upgrade {
				try(r, method)
			}
		})
		if tried < 40 {
			t.Errorf("only %d routes were tried", tried)
		}
	})
}

// each calls do with every route and method of a gateway.
func each(g *Gateway, do func(r *route, method string)) {
	routes := append([]*route(nil), g.routes.patterns...)
	for _, r := range g.routes.plain {
		routes = append(routes, r)
	}
	for _, r := range routes {
		for method := range r.methods {
			do(r, method)
		}
	}
}

// TestRefusedRequestsCount sends requests that fail after their caller is known:
// each counts, and none stays under way.
func TestRefusedRequestsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)})
		s.limited(limit.Limits{RequestsPerMinute: 5, ConcurrentRequests: 1})
		long := strings.Repeat("word ", 100_000)
		bodies := map[string]string{
			"/v1/messages/count_tokens": `{"model":"` + modelID + `","messages":[{"role":"user","content":"Hi"}]}`,
			"/v1/moderations":           `{"input":"Hi"}`,
			"/v1/chat/completions": `{"model":"` + modelID + `","messages":[{"role":"user","content":"` + long +
				`"}]}`,
			"/v1/rerank":     `{`,
			"/v1/embeddings": `{}`,
		}
		for path, body := range bodies {
			if r, answer := s.do("POST", path, body); r.StatusCode == 429 {
				t.Errorf("%s: %.300s", path, answer)
			}
		}
		if r, answer := s.do("POST", "/v1/moderations", `{"input":"Hi"}`); r.StatusCode != 429 {
			t.Errorf("the sixth in a minute: %d: %s", r.StatusCode, answer)
		}
	})
}

// TestReadsLeaveInferenceAlone has a page poll beside an answer, and stop it: both
// go by a rate of their own.
func TestReadsLeaveInferenceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", time.Second)}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{RequestsPerMinute: 2, ConcurrentRequests: 1, LightRequestsPerMinute: 32})
		path := s.converse("")
		for i := range 30 {
			if r, body := s.do("GET", "/v1/models", ""); r.StatusCode != 200 ||
				i == 0 && r.Header.Get("X-Ratelimit-Limit-Requests") != "32" {
				t.Fatalf("%d, %v: %s", r.StatusCode, r.Header, body)
			}
		}
		if status, o := s.call("POST", path+"/messages",
			`{"model":"`+modelID+`","content":"Hi","max_tokens":9}`); status != 200 {
			t.Errorf("after 30 reads: %d: %v", status, o)
		}
		if r, _ := s.do("POST", path+"/messages/none/cancel", ""); r.StatusCode != 404 {
			t.Errorf("stopping an answer with no requests left: %d", r.StatusCode)
		}
		if r, _ := s.do("DELETE", path, ""); r.StatusCode != 200 {
			t.Errorf("deleting with no requests left: %d", r.StatusCode)
		}
		for range 2 { // what came back while the answer was written
			s.do("GET", "/v1/models", "")
		}
		if r, body := s.do("GET", "/v1/models", ""); r.StatusCode != 429 ||
			!strings.Contains(body, "32 light requests a minute") {
			t.Errorf("after 34: %d: %s", r.StatusCode, body)
		}
	})
}

// TestSlotsAreReleased has requests end in ways that no bill sees: what is under way
// is given back once, also by panics, by clients that leave and by WebSockets.
func TestSlotsAreReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", time.Second)}, metered(t))
		closing(t, s)
		s.gateway.routes.add(routeRow{method: "POST", path: "/v1/panics", access: stateless, run: func(*call) error {
			panic("oh")
		}})
		limits := limit.Limits{ConcurrentRequests: 1}
		s.limited(limits)
		free := func(when string) {
			t.Helper()
			synctest.Wait()
			probe := &limit.Hold{ID: when, Group: "acme", Accounts: []limit.Account{{Name: "acme", Limits: limits}},
				Use: limit.Use{Requests: 1, Concurrent: 1}}
			if v, err := s.gateway.config.Limits.Reserve(t.Context(), probe); err != nil || v.Refused != "" {
				t.Errorf("after %s: %+v, %v", when, v, err)
			}
			s.gateway.config.Limits.Settle(probe, limit.Use{})
		}
		s.do("POST", "/v1/panics", "")
		free("a panic")
		s.do("POST", "/v1/moderations", `{"input":"Hi"}`)
		free("an answer without a bill")
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := s.request(ctx, `,"stream":true`); err == nil {
			t.Error("the client should have left")
		}
		free("a client that left")
		s.overSocket("/v1/chat/completions", chatBody(`,"max_tokens":9`), "[DONE]")
		free("an answer over a socket")
		s.overSocket("/v1/chat/completions", `{`, "[DONE]")
		free("a bad message over a socket")
		s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"background":true`))
		if r, _ := s.do("POST", "/v1/moderations", `{"input":"Hi"}`); r.StatusCode != http.StatusTooManyRequests {
			t.Errorf("beside an answer in the background: %d", r.StatusCode)
		}
		s.gateway.runs.Wait()
		free("an answer in the background")
	})
}
