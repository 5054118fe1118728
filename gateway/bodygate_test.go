package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/screening"
	"parley/gateway/tenant"
	"parley/limit"
)

// TestBodiesInMemoryAreBounded has one key send a body that does not arrive: the next
// of the key is refused unread, and another key is answered.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, func(c *Config) {
			c.BodyBytesMax, c.BodyBytesPerKey = 1<<20, 1<<20
		})
		s.gateway.who = func(c *call) (*tenant.Identity, error) {
			return &tenant.Identity{Organization: c.Request.Header.Get("X-Org"), Key: "k", Tier: parley.Pro}, nil
		}
		body, sent := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		slow := must(http.NewRequestWithContext(ctx, "POST", "http://parley/v1/chat/completions", body))(t)
		slow.ContentLength = 1 << 20
		slow.Header.Set("Content-Type", "application/json")
		slow.Header.Set("X-Org", "slow")
		go func() { _, _ = s.client.Do(slow) }() // it is never answered
		_, _ = sent.Write([]byte("{"))
		synctest.Wait()
		if used := s.gateway.exchanges.Bodies.Used(); used != 1<<20 {
			t.Errorf("a body that is being read holds %d bytes", used)
		}
		if r, body := s.do("POST", "/v1/chat/completions", chatBody(""), "X-Org", "other"); r.StatusCode != 200 {
			t.Errorf("another key: %d: %s", r.StatusCode, body)
		}
		r, answer := s.do("POST", "/v1/chat/completions", chatBody(""), "X-Org", "slow")
		if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" ||
			!strings.Contains(answer, "of 1 MiB that a key may have, 1 MiB are taken") {
			t.Errorf("the same key: %d: %s", r.StatusCode, answer)
		}
		cancel()
		_ = sent.Close()
		synctest.Wait()
		if used := s.gateway.exchanges.Bodies.Used(); used != 0 {
			t.Errorf("%d bytes are held when all is over", used)
		}
		time.Sleep(time.Second) // the server ends the connection
	})
}

// TestSocketsAreBounded opens more connections than a key may have, and lets frames
// wait on one of them: what waits holds bytes, which are given back with it.
func TestSocketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", time.Second)}, func(c *Config) {
			c.SocketsPerKey, c.BodyBytesMax, c.BodyBytesPerKey = 2, 200<<10, 200<<10
		})
		s.limited(limit.Limits{})
		first, second := s.mustDial("/v1/chat/completions"), s.mustDial("/v1/chat/completions")
		if _, r, err := s.dial("/v1/chat/completions"); err == nil || r.StatusCode != http.StatusTooManyRequests {
			t.Errorf("the third connection: %v", err)
		}
		second.CloseNow()
		synctest.Wait()
		s.mustDial("/v1/chat/completions")
		sendFrame(t, first, chatBody(`,"max_tokens":9`))
		sendFrame(t, first, `{"padding":"`+strings.Repeat("x", 150<<10)+`"}`)
		synctest.Wait()
		if used := s.gateway.exchanges.Bodies.Used(); used < 150<<10 {
			t.Errorf("a frame of 150 KiB that waits holds %d bytes", used)
		}
		first.CloseNow()
		time.Sleep(time.Minute)
		synctest.Wait()
		if used := s.gateway.exchanges.Bodies.Used(); used != 0 {
			t.Errorf("%d bytes are held by a connection that has ended", used)
		}
	})
}

// TestTextIsRefusedByItsBytes sends text that cannot fit, whatever tokens it has, to
// every route that takes text: it is refused with a number of tokens that it has at
// least, before it is screened or made tokens of.
func TestTextIsRefusedByItsBytes(t *testing.T) { synctest.Test(t, testRefusedByBytes) }

func testRefusedByBytes(t *testing.T) {
	s := start(t, &worker{script: speak(t, "Hello", 0)})
	m := s.gateway.models.All()[0]
	text := strings.Repeat("a@b.de ", (m.ContextTokens+2)*m.BytesPerToken()/7+1)
	model := `{"model":"` + modelID + `",`
	bodies := map[string]string{
		"/v1/chat/completions":      model + `"messages":[{"role":"user","content":"` + text + `"}]}`,
		"/v1/messages":              model + `"max_tokens":9,"messages":[{"role":"user","content":"` + text + `"}]}`,
		"/v1/messages/count_tokens": model + `"messages":[{"role":"user","content":"` + text + `"}]}`,
		"/v1/responses":             model + `"input":"` + text + `"}`,
		"/v1/completions":           model + `"prompt":["x","` + text + `"]}`,
		"/v1/embeddings":            model + `"input":["x","` + text + `"]}`,
	}
	for path, body := range bodies {
		r, answer := s.do("POST", path, body)
		said := strings.Contains(answer, "resulted in at least") &&
			strings.Contains(answer, "maximum context length is 100 tokens")
		if exchange.IsMessages(path) {
			said = strings.Contains(answer, "prompt is too long: ") && strings.Contains(answer, " tokens > 100 maximum")
		}
		if r.StatusCode != 400 || !said {
			t.Errorf("%s: %d: %.300s", path, r.StatusCode, answer)
		}
	}
	if r, answer := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":2`)); r.StatusCode != 200 {
		t.Errorf("text that fits: %d: %s", r.StatusCode, answer)
	}
	for _, e := range s.gateway.safety.Recent(0, 1000) {
		if e.Origin.String() == "user" && e.Direction == "input" {
			t.Errorf("text that cannot fit was screened: %+v", e)
			break
		}
	}
}

// TestFindingsAreBounded sends a text with a finding in every word: few lines and
// events tell of it, and one line tells how many more there are.
func TestFindingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, func(c *Config) { c.Models[0].ContextTokens = 1 << 20 })
		text := strings.Repeat("write to ann@example.com ", 2000)
		r, answer := s.do("POST", "/v1/chat/completions",
			`{"model":"`+modelID+`","max_tokens":1,"messages":[{"role":"user","content":"`+text+`"}]}`)
		if r.StatusCode != 200 {
			t.Fatalf("%d: %.300s", r.StatusCode, answer)
		}
		s.wantLog(fmt.Sprintf("more_findings=%d", 2000-screening.FindingsMax))
		if n := strings.Count(s.log.String(), "msg=safety"); n != screening.FindingsMax+1 {
			t.Errorf("%d lines", n)
		}
		if n := len(s.gateway.safety.Recent(0, 1000)); n != screening.FindingsMax {
			t.Errorf("%d events are remembered", n)
		}
		s.wantMetric(`parley_safety_findings_total{action="flag",category="pii",direction="input"}`, "2000")
	})
}
