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
	"parley/gateway/batch"
	"parley/gateway/book"
	"parley/gateway/convo"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/internal/testkit"
	"parley/limit"
)

// callers has calls made as their headers say, with what a tier allows.
func (s *server) callers(tier tenant.Tier) {
	s.gateway.who = func(c *call) (*tenant.Identity, error) {
		h := c.Request.Header
		return &tenant.Identity{Organization: "acme", User: h.Get("X-User"), Key: h.Get("X-Key"), Tier: parley.Free,
			UserLimits: tier.UserLimits, EndUserLimits: tier.EndUserLimits, Quota: tier.Quota,
			UserQuota: tier.UserQuota}, nil
	}
}

// TestUsersHaveLimits asks with several keys of a user, and for users whom the request
// names: each user has one account, whatever key is shown, in memory and in Redis.
func TestUsersHaveLimits(t *testing.T) {
	books := map[string]func(t *testing.T) book.Book{
		"memory": func(*testing.T) book.Book { return nil },
		"redis": func(t *testing.T) book.Book {
			b := must(book.OpenRedis(t.Context(),
				book.RedisConfig{URL: testkit.StartRedis(t).URL, Timeout: 30 * time.Second}))(t)
			t.Cleanup(func() { b.Close() })
			return b
		},
	}
	for name, open := range books {
		t.Run(name, func(t *testing.T) {
			s := start(t, &worker{script: speak(t, "Hello", 0)}, func(c *Config) { c.Limits = open(t) })
			ask := func(key, user, extra string) int {
				r, _ := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":2`+extra), "X-Key", key, "X-User",
					user)
				return r.StatusCode
			}
			s.callers(tenant.Tier{UserLimits: limit.Limits{RequestsPerMinute: 2}})
			got := []int{ask("k1", "ann", ""), ask("k2", "ann", ""), ask("k3", "ann", ""), ask("k3", "bob", ""),
				ask("k4", "", "")}
			if fmt.Sprint(got) != "[200 200 429 200 200]" {
				t.Errorf("two of ann, with three keys, then others: %v", got)
			}
			s.callers(tenant.Tier{EndUserLimits: limit.Limits{RequestsPerMinute: 1, OutputTokensPerMinute: 100}})
			named := func(key, field, name string) int { return ask(key, "", `,"`+field+`":"`+name+`"`) }
			got = []int{named("k1", "user", "x"), named("k2", "safety_identifier", "x"), named("k1", "user", "y"),
				ask("k1", "", ""), ask("k1", "", "")}
			if fmt.Sprint(got) != "[200 429 200 200 200]" {
				t.Errorf("users that requests name: %v", got)
			}
			message := func(name string) int {
				r, _ := s.do("POST", "/v1/messages", `{"model":"`+modelID+
					`","max_tokens":2,"messages":[{"role":"user","content":"Hi"}],"metadata":{"user_id":"`+name+`"}}`,
					"X-Key", "k4")
				return r.StatusCode
			}
			if got := []int{message("z"), message("z"), message("y")}; fmt.Sprint(got) != "[200 429 429]" {
				t.Errorf("users that Anthropic's requests name: %v", got)
			}
			_, body := s.do("POST", "/v1/chat/completions", chatBody(`,"user":"x"`), "X-Key", "k1")
			if !strings.Contains(body, "Rate limit of the user that the request names reached") {
				t.Errorf("the refusal is %s", body)
			}
		})
	}
}

// TestQuotasAreServed stores until the quota is used up, through every route that stores,
// and reads what a caller has left.
func TestQuotasAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := must(batch.Open(t.TempDir(), batch.Limits{}))(t)
		t.Cleanup(func() { files.Close() })
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t), func(c *Config) { c.Batches = files })
		closing(t, s)
		s.callers(tenant.Tier{Quota: tenant.Quota{Conversations: 2, StoreBytes: 5000, Files: 1, Batches: 1},
			UserQuota: tenant.Quota{Conversations: 1}})
		full := func(what string, r *http.Response, body string) {
			t.Helper()
			if r.StatusCode != 429 || !strings.Contains(body, "insufficient_quota") ||
				!strings.Contains(body, "may") || r.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: %d: %s", what, r.StatusCode, body)
			}
		}
		_, made := s.call("POST", "/v1/conversations", `{}`, "X-User", "ann")
		path := "/v1/conversations/" + made.text("id")
		r, body := s.do("POST", "/v1/conversations", `{}`, "X-User", "ann")
		full("a second conversation", r, body)
		r, body = s.do("POST", path+"/items", `{"items":[{"role":"user","content":"`+strings.Repeat("x", 6000)+`"}]}`,
			"X-User", "ann")
		full("items", r, body)
		r, body = s.do("POST", path+"/messages", `{"model":"`+modelID+`","content":"`+strings.Repeat("x", 6000)+`"}`,
			"X-User", "ann")
		full("a turn", r, body)
		_, archive := s.do("GET", path+"/export", "", "X-User", "ann")
		r, body = s.do("POST", "/v1/conversations/import", archive, "X-User", "ann")
		full("an import", r, body)
		contentType, form := form("purpose", "batch", "file", "line\n")
		upload := func() (*http.Response, string) {
			return s.do("POST", "/v1/files", form, "Content-Type", contentType, "X-User", "ann")
		}
		upload()
		r, body = upload()
		full("a second file", r, body)
		_, me := s.call("GET", "/v1/organization/me", "", "X-User", "ann")
		for _, want := range [][]string{{"1", "quota", "used", "conversations"},
			{"2", "quota", "limit", "conversations"}, {"1", "user_quota", "limit", "conversations"},
			{"1", "quota", "used", "files"}, {"1", "quota", "limit", "batches"}} {
			if got := fmt.Sprint(me.at(want[1:]...)); got != want[0] {
				t.Errorf("%v is %s, want %s: %v", want[1:], got, want[0], me)
			}
		}
	})
}

// TestSlowUploadsEnd sends a file that comes a byte at a time, never silent for long:
// it ends when it has taken longer than its size excuses.
func TestSlowUploadsEnd(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startWithBatches(t, &worker{}, dir)
		contentType, text := form("purpose", "batch", "file", strings.Repeat("x", 1000))
		body, sent := io.Pipe()
		go func() {
			for i := range len(text) {
				time.Sleep(10 * time.Second)
				if _, err := sent.Write([]byte(text[i : i+1])); err != nil {
					return
				}
			}
			sent.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		r := must(http.NewRequestWithContext(ctx, "POST", "http://parley/v1/files", body))(t)
		r.ContentLength = int64(len(text))
		r.Header.Set("Content-Type", contentType)
		began := time.Now()
		answer, err := s.client.Do(r)
		if took := time.Since(began); took > 2*uploadWaitMax || err == nil && answer.StatusCode != 400 {
			t.Errorf("after %v: %+v, %v", took, answer, err)
		}
		if err == nil {
			answer.Body.Close()
		}
		sent.CloseWithError(io.ErrClosedPipe)
		body.Close()
		time.Sleep(time.Minute)
	})
	if a, b := uploadTime(1<<20, 200e6), uploadTime(-1, 200e6); a != uploadWaitMax+16*time.Second ||
		b < 50*time.Minute || b > time.Hour {
		t.Errorf("a MiB may take %v, a file of unknown length %v", a, b)
	}
}

// TestTierCapsHoldEverywhere sends more than a tier's sessions may hold by every
// address that keeps nothing: the tier's policy drops the oldest turns and says so, or
// refuses. What has no turns is refused.
func TestTierCapsHoldEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello", 0)}
		const most = 120
		open := func(policy convo.Policy) *server {
			return start(t, w, func(c *Config) {
				c.Models[0].ContextTokens = 4000
				c.TierContexts = models.TierContexts{parley.Free: {Policy: policy, Tokens: most},
					parley.Pro: {Policy: convo.Drop}, parley.Enterprise: {Policy: convo.Drop}}
			})
		}
		as := func(s *server, tier parley.Class) {
			s.gateway.who = func(*call) (*tenant.Identity, error) {
				return &tenant.Identity{Organization: "acme", Tier: tier}, nil
			}
		}
		turn := `{"role":"user","content":"` + strings.Repeat("tell ",
			10) + `"},{"role":"assistant","content":"` + strings.Repeat("told ", 10) + `"},`
		messages := `"messages":[` + strings.Repeat(turn, 6) + `{"role":"user","content":"And now?"}]`
		bodies := map[string]string{
			"/v1/chat/completions": `{"model":"` + modelID + `","max_tokens":5,` + messages + `}`,
			"/v1/messages":         `{"model":"` + modelID + `","max_tokens":5,` + messages + `}`,
			"/v1/responses": `{"model":"` + modelID + `","max_output_tokens":5,"input"` + strings.TrimPrefix(
				messages, `"messages"`) + `}`,
		}
		dropping, refusing := open(convo.Drop), open(convo.Refuse)
		for path, body := range bodies {
			as(dropping, parley.Free)
			w.forget()
			r, answer := dropping.do("POST", path, body)
			if r.StatusCode != 200 || r.Header.Get(droppedHeader) == "" || len(w.request(t).Prompt) > most {
				t.Errorf("%s: %d with %q dropped and %d tokens: %s", path, r.StatusCode, r.Header.Get(droppedHeader),
					len(w.request(t).Prompt), answer)
			}
			as(dropping, parley.Pro)
			if r, answer := dropping.do("POST", path, body); r.StatusCode != 200 || r.Header.Get(droppedHeader) != "" {
				t.Errorf("%s of a tier without a cap: %d: %s", path, r.StatusCode, answer)
			}
			as(refusing, parley.Free)
			if r, answer := refusing.do("POST", path, body); r.StatusCode != 400 ||
				!strings.Contains(answer, "120 fit") {
				t.Errorf("%s refused: %d: %s", path, r.StatusCode, answer)
			}
		}
		as(dropping, parley.Free)
		r, answer := dropping.do("POST", "/v1/completions",
			`{"model":"`+modelID+`","prompt":"`+strings.Repeat("tell ", 200)+`"}`)
		if r.StatusCode != 400 || decode[openai.ErrorBody](t, answer).Error.Code == nil ||
			!strings.Contains(answer, "maximum context length is 120 tokens") {
			t.Errorf("a plain prompt: %d: %s", r.StatusCode, answer)
		}
	})
}

// forget lets a worker be asked anew.
func (w *worker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = nil
}
