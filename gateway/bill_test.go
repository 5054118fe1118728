package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/book"
	"parley/gateway/convo"
	"parley/gateway/db"
	"parley/gateway/infer"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/tenant"
	"parley/internal/testkit"
	"parley/limit"
)

// metered gives a gateway a store and a ledger in one database, and prices:
// a token of a prompt costs 10, a cached one 1, a written one 100.
func metered(t *testing.T) func(*Config) {
	d, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "m.db"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := convo.New(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	prices := ledger.Prices{}
	if err := prices.Add(modelID + "=10/1/100"); err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Store, c.Ledger, c.Prices, c.NoTitles = store, l, prices, true }
}

// limited has all calls made by one organisation with these limits.
func (s *server) limited(l limit.Limits) {
	s.gateway.who = func(c *call) (*tenant.Identity, error) {
		return &tenant.Identity{Organization: "acme", Key: "key_1", User: "ann", Tier: parley.Pro,
			Admin: c.Request.Header.Get("X-Admin") != "", Limits: l}, nil
	}
}

// used sums up the whole ledger.
func (s *server) used() ledger.Sum {
	s.t.Helper()
	sums, err := s.gateway.config.Ledger.Sums(s.t.Context(),
		ledger.Query{From: time.Unix(1, 0), To: time.Now().Add(time.Hour)})
	if err != nil || len(sums) > 1 {
		s.t.Fatalf("%v, %v", sums, err)
	}
	if len(sums) == 0 {
		return ledger.Sum{}
	}
	return sums[0]
}

func closing(t *testing.T, s *server) { t.Cleanup(func() { s.gateway.Close(context.Background()) }) }

func TestLimitsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", 0)})
		s.limited(limit.Limits{RequestsPerMinute: 2, InputTokensPerMinute: 500, OutputTokensPerMinute: 50})
		r, _ := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":20`))
		for name, want := range map[string]string{"Limit-Requests": "2", "Remaining-Requests": "1",
			"Reset-Requests": "30s", "Limit-Tokens": "50", "Remaining-Tokens": "30", "Reset-Tokens": "24s"} {
			if got := r.Header.Get("X-Ratelimit-" + name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":20,"stream":true`))
		r, body := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":20`))
		if r.StatusCode != 429 || r.Header.Get("Retry-After") != "30" || r.Header.Get("Retry-After-Ms") != "30000" ||
			r.Header.Get("X-Ratelimit-Remaining-Requests") != "0" || !strings.Contains(body, "rate_limit_exceeded") ||
			!strings.Contains(body, "2 requests a minute, 0 left, requested 1. Try again in 30s.") {
			t.Errorf("%d, %v: %s", r.StatusCode, r.Header, body)
		}
		time.Sleep(30 * time.Second)
		r, body = s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":51`))
		if r.StatusCode != 429 || r.Header.Get("X-Should-Retry") != "false" ||
			!strings.Contains(body, "50 output tokens a minute, requested 51") {
			t.Errorf("what can never go: %d, %v: %s", r.StatusCode, r.Header, body)
		}
		s.wantMetric(`parley_limited_requests_total{limit="requests"}`, "1")
		time.Sleep(30 * time.Second)
		if status, body := s.chat(`,"max_tokens":20`); status != 200 {
			t.Errorf("after the time it was told: %d, %s", status, body)
		}
	})
}

func TestAnswerWithoutALengthFitsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello", 0)}
		s := start(t, w)
		s.limited(limit.Limits{OutputTokensPerMinute: 7})
		if status, body := s.chat(""); status != 200 {
			t.Fatalf("%d, %s", status, body)
		}
		if got := w.request(t).MaxTokens; got != 7 {
			t.Errorf("the answer may have %d tokens", got)
		}
	})
}

func TestSpentBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello there", 0)}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{MonthlyBudget: 3000})
		_, body := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":20`))
		var answer struct {
			Usage   struct{ PromptTokens, CompletionTokens int64 }
			Timings struct {
				Cost int64 `json:"cost_micros"`
			}
		}
		if err := json.Unmarshal([]byte(strings.NewReplacer("prompt_tokens\"", "PromptTokens\"", "completion_tokens\"",
			"CompletionTokens\"").Replace(body)), &answer); err != nil {
			t.Fatal(err)
		}
		want := (answer.Usage.PromptTokens-2)*10 + 2 + answer.Usage.CompletionTokens*100
		if answer.Timings.Cost != want || want <= 2 {
			t.Errorf("it costs %d, want %d: %s", answer.Timings.Cost, want, body)
		}
		r, body := s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":60`))
		if r.StatusCode != 429 || r.Header.Get("X-Should-Retry") != "false" || r.Header.Get("Retry-After") != "" ||
			!strings.Contains(body, `"insufficient_quota"`) {
			t.Errorf("%d, %v: %s", r.StatusCode, r.Header, body)
		}
		if got := s.used(); got.Requests != 1 || int64(got.Cost) != want {
			t.Errorf("the ledger has %+v", got)
		}
	})
}

// TestEveryEndIsSettled lets requests end in all the ways there are, one at a
// time: what one did not give back the next would miss.
func TestEveryEndIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mode := ""
		w := &worker{script: func(r *parley.Request) []say {
			switch mode {
			case "error":
				return []say{{err: errors.New("broken")}}
			case "panic":
				return []say{{delta: parley.Delta{Tokens: tokensOf(t, "Hi")}}, {panic: "oh"}}
			}
			return speech(t, r, time.Second, "Hello there")
		}}
		s := start(t, w, metered(t), func(c *Config) { c.Admission.Breaker.Off = true })
		closing(t, s)
		s.limited(limit.Limits{ConcurrentRequests: 1, OutputTokensPerMinute: 50})
		kept := `,"max_tokens":50,"temperature":0`
		for _, mode = range []string{"error", "panic", "whole"} {
			time.Sleep(time.Minute)
			s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":50`))
			time.Sleep(time.Minute)
			s.do("POST", "/v1/chat/completions", chatBody(`,"max_tokens":50,"stream":true`))
		}
		leaves := func(after time.Duration, extra string) {
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if _, err := s.request(ctx, extra); err == nil {
				t.Error("it should have been cut off")
			}
			s.settled(w)
		}
		leaves(500*time.Millisecond, `,"max_tokens":50`)
		leaves(1500*time.Millisecond, `,"max_tokens":50,"stream":true`)
		before := s.used()
		time.Sleep(time.Minute)
		for range 2 { // the second is the first again, from the cache
			if status, body := s.chat(kept); status != 200 {
				t.Fatalf("%d: %s", status, body)
			}
			time.Sleep(time.Minute)
		}
		after := s.used()
		if before.Requests != 8 || after.Requests != 10 ||
			after.Output-before.Output != 2*int64(len(tokensOf(t, "Hello there"))) {
			t.Errorf("the ledger has %+v, then %+v", before, after)
		}
		v, err := s.gateway.config.Limits.Reserve(t.Context(),
			&limit.Hold{ID: "probe", Group: "acme", Accounts: []limit.Account{{Name: "acme",
				Limits: limit.Limits{ConcurrentRequests: 1, OutputTokensPerMinute: 50}}}, Use: limit.Use{Output: 50}})
		if err != nil || v.Refused != "" {
			t.Errorf("something was not given back: %+v, %v", v, err)
		}
	})
}

// A breakingBook does something once it has reserved.
type breakingBook struct {
	book.Book
	then func()
}

func (b *breakingBook) Reserve(ctx context.Context, h *limit.Hold) (limit.Verdict, error) {
	v, err := b.Book.Reserve(ctx, h)
	b.then()
	return v, err
}

// TestBrokenBeginningIsSettled has a request panic when its limits are reserved and
// nothing is begun yet.
func TestBrokenBeginningIsSettled(t *testing.T) {
	book := &breakingBook{Book: book.NewMemory(time.Now)}
	s := start(t, &worker{script: speak(t, "Hello there", 0)}, func(c *Config) { c.Limits = book })
	s.limited(limit.Limits{ConcurrentRequests: 1})
	m := s.gateway.models.All()[0]
	whole := m.Tokenizer
	book.then = func() { m.Tokenizer = nil }
	if status, body := s.chat(""); status != 500 {
		t.Fatalf("%d: %s", status, body)
	}
	m.Tokenizer, book.then = whole, func() {}
	if status, body := s.chat(""); status != 200 {
		t.Errorf("what was reserved is not given back: %d: %s", status, body)
	}
}

// TestAllThatGeneratesIsMetered asks at every endpoint: each is refused while
// nothing is allowed, and in the ledger when it is.
func TestAllThatGeneratesIsMetered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t), func(c *Config) {
			c.NoTitles = false
			c.Models[0].Template = tinyTemplate(t)
		})
		closing(t, s)
		chats := map[string]string{
			"/v1/chat/completions": chatBody(`,"max_tokens":9`),
			"/v1/completions":      `{"model":"` + modelID + `","prompt":["a","b"],"max_tokens":9}`,
			"/v1/messages": `{"model":"` + modelID +
				`","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`,
			"/v1/responses":         `{"model":"` + modelID + `","input":"Hi","max_output_tokens":9}`,
			"/v1/responses/compact": `{"model":"` + modelID + `","input":[{"role":"user","content":"Hi"}]}`,
			"/api/chat":             chatBody(`,"options":{"num_predict":9}`),
			"/api/generate":         `{"model":"` + modelID + `","prompt":"Hi","options":{"num_predict":9}}`,
			"/infill":               `{"model":"` + modelID + `","input_prefix":"a","input_suffix":"b","n_predict":9}`,
		}
		s.limited(limit.Limits{InputTokensPerMinute: 1})
		for path, body := range chats {
			if r, answer := s.do("POST", path, body); r.StatusCode != 429 {
				t.Errorf("%s without a token: %d, %s", path, r.StatusCode, answer)
			}
		}
		if got := s.used(); got.Requests != 0 {
			t.Errorf("what was refused is in the ledger: %+v", got)
		}
		s.limited(limit.Limits{ConcurrentRequests: 100})
		for path, body := range chats {
			before := s.used()
			r, answer := s.do("POST", path, body)
			if after := s.used(); r.StatusCode != 200 || after.Requests != before.Requests+1 ||
				after.Output == before.Output || after.Cost == before.Cost {
				t.Errorf("%s: %d, %s: from %+v to %+v", path, r.StatusCode, answer, before, after)
			}
		}
		before := s.used()
		_, made := s.call("POST", "/v1/conversations", `{"model":"`+modelID+`"}`)
		path := "/v1/conversations/" + made.text("id") + "/messages"
		if status, o := s.call("POST", path, `{"content":"Hi","max_tokens":9}`); status != 200 {
			t.Fatalf("%d: %v", status, o)
		}
		s.gateway.runs.Wait()
		answer := int64(len(tokensOf(t, "Hello")))
		if after := s.used(); after.Requests != before.Requests+1 || after.Output < before.Output+2*answer {
			t.Errorf("a turn and its title: from %+v to %+v", before, after)
		}
		_, list := s.do("GET", "/v1/conversations/"+made.text("id")+"/items", "")
		if !strings.Contains(list, `"cost_micros":`) {
			t.Errorf("the message does not tell its cost: %s", list)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &embedder{}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{InputTokensPerMinute: 100})
		s.embed(`,"input":["a","b"]`)
		if got := s.used(); got.Requests != 1 || got.Input == 0 || got.Output != 0 {
			t.Errorf("embeddings: %+v", got)
		}
		s.do("POST", "/api/embed", `{"model":"`+modelID+`","input":["a","b"]}`)
		if got := s.used(); got.Requests != 2 || got.Output != 0 {
			t.Errorf("with Ollama's: %+v", got)
		}
	})
}

// TestReplaysAreNotMetered sends what has an answer again, with its idempotency
// key: it counts as a request, but nothing is computed, so nothing is in the ledger
// or taken of the limits of tokens.
func TestReplaysAreNotMetered(t *testing.T) {
	for _, c := range []struct{ name, extra string }{{"whole", ""}, {"stream", `,"stream":true`},
		{"background", `,"background":true`}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, metered(t))
				closing(t, s)
				s.limited(limit.Limits{RequestsPerMinute: 4, InputTokensPerMinute: 70})
				for n := range 4 {
					r, _ := s.do("POST", "/v1/responses", responseBody(`"Hi"`, c.extra), "Idempotency-Key", "k")
					s.gateway.runs.Wait()
					if got := s.used(); r.StatusCode != 200 || got.Requests != 1 || got.Output == 0 {
						t.Errorf("after %d replays: %d, %+v", n, r.StatusCode, got)
					}
				}
			})
		})
	}
}

func TestUsageInThePublishedShape(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{ConcurrentRequests: 9})
		for range 3 {
			s.chat("")
		}
		start := time.Now().AddDate(0, 0, -1).Unix()
		ask := func(path, query string) string {
			r, body := s.do("GET", fmt.Sprintf("/v1/organization/%s?start_time=%d%s", path, start, query), "")
			if r.StatusCode != 200 {
				t.Errorf("%d: %s", r.StatusCode, body)
			}
			return body
		}
		for _, query := range []string{"",
			"&group_by=model&group_by[]=api_key_id,batch&group_by=project_id&group_by=user_id&group_by=service_tier",
			"&bucket_width=1h&limit=3", "&models=none"} {
			published.want(t, "UsageResponse", ask("usage/completions", query))
		}
		costs := ask("costs", "&group_by=line_item")
		published.want(t, "UsageResponse", costs)
		cost := s.used().Cost
		if !strings.Contains(costs, `"value":`+cost.String()+`,"currency":"usd"`) ||
			!strings.Contains(costs, `"line_item":"`+modelID+`"`) {
			t.Errorf("the cost of %s: %s", cost, costs)
		}
		all := ask("usage/completions", "&group_by=api_key_id")
		if !strings.Contains(all, `"num_model_requests":3`) || !strings.Contains(all, `"api_key_id":"key_1"`) {
			t.Errorf("%s", all)
		}
		if table := ask("usage/completions", "&group_by=model&format=csv"); !strings.Contains(table,
			","+modelID+",3,") {
			t.Errorf("%s", table)
		}
		for _, query := range []string{"", "?start_time=x", "?start_time=1&bucket_width=2d",
			"?start_time=1&group_by=nonsense", "?start_time=1&limit=0", "?start_time=1&page=x"} {
			if r, body := s.do("GET", "/v1/organization/usage/completions"+query, ""); r.StatusCode != 400 {
				t.Errorf("%q: %d, %s", query, r.StatusCode, body)
			}
		}
	})
}

// TestUsageByTag groups usage by the metadata of requests, for each API that has metadata.
func TestUsageByTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{ConcurrentRequests: 9})
		s.chat("")
		s.chat(`,"metadata":{"project":"search","other":"x"}`)
		s.chat(`,"metadata":{"project":"search"},"stream":true`)
		s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"metadata":{"project":"answers"}`))
		s.message(`,"metadata":{"user_id":"ann"}`)
		path := fmt.Sprintf("/v1/organization/usage/completions?start_time=%d&group_by=", time.Now().Unix()-3600)
		for query, want := range map[string][]string{
			"tag:project&format=csv": {"start_time,tag:project,", "Z,,2,", "Z,answers,1,", "Z,search,2,"},
			"tag:user_id&format=csv": {"Z,,5,"}, // who it is stays out of the ledger
			"model,tag:project":      {`"tag":"search"`, `"tag":"answers"`, `"tag":""`},
		} {
			r, body := s.do("GET", path+query, "")
			for _, part := range want {
				if r.StatusCode != 200 || !strings.Contains(body, part) {
					t.Errorf("%s: %d, %s without %s", query, r.StatusCode, body, part)
				}
			}
		}
		for _, query := range []string{"tag:", "tag:a,tag:b"} {
			if r, body := s.do("GET", path+query, ""); r.StatusCode != 400 {
				t.Errorf("%s: %d, %s", query, r.StatusCode, body)
			}
		}
		if status, body := s.chat(`,"metadata":{"a":1}`); status != 400 {
			t.Errorf("metadata that is not text: %d, %s", status, body)
		}
	})
}

// showUsage asks for all that is published of usage.
func (s *server) showUsage() {
	metering := start(s.t, &worker{script: speak(s.t, "Hello", 0)}, metered(s.t))
	closing(s.t, metering)
	metering.proof.seen = s.proof.seen
	metering.chat("")
	metering.do("GET", "/v1/organization/usage/completions?start_time=1&group_by=model", "")
	metering.do("GET", "/v1/organization/costs?start_time=1&group_by=line_item", "")
}

func TestKeyHoldersSeeTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{ConcurrentRequests: 9})
		other := ledger.Entry{ID: "x", At: time.Now(), Organization: "acme", Key: "key_2", Model: modelID, Input: 1000}
		if err := s.gateway.config.Ledger.Append(t.Context(), &other); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/v1/organization/usage/completions?start_time=%d&group_by=api_key_id",
			time.Now().AddDate(0, 0, -1).Unix())
		s.chat("")
		if _, own := s.do("GET", path, ""); strings.Contains(own, "key_2") || !strings.Contains(own, "key_1") {
			t.Errorf("a key sees %s", own)
		}
		if _, none := s.do("GET", path+"&api_key_ids=key_2", ""); strings.Contains(none, "key_") {
			t.Errorf("a key that asks for another's sees %s", none)
		}
		if _, all := s.do("GET", path, "", "X-Admin", "1"); !strings.Contains(all, "key_2") ||
			!strings.Contains(all, "key_1") {
			t.Errorf("an admin sees %s", all)
		}
	})
}

// TestTurnsInTheBackgroundHaveLimits has a turn go on without its client, as the
// chat page asks for, under limits that a client would be told of.
func TestTurnsInTheBackgroundHaveLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hello", 0)}, metered(t))
		closing(t, s)
		s.limited(limit.Limits{RequestsPerMinute: 2, OutputTokensPerMinute: 1000}) // one makes the conversation
		path := s.converse("") + "/messages"
		body := `{"model":"` + modelID + `","content":"Hi","background":true,"max_tokens":9}`
		if status, o := s.call("POST", path, body); status != 200 ||
			o.text("choices", "message", "content") != "Hello" {
			t.Errorf("%d: %v", status, o)
		}
		if status, o := s.call("POST", path, body); status != 429 {
			t.Errorf("the second in a minute: %d: %v", status, o)
		}
		s.gateway.runs.Wait()
		synctest.Wait() // an answer is there before it is remembered
		lives := s.gateway.records.Requests(&admin.Filter{Outcome: admin.OK, Model: modelID}, "", 10).Requests
		if len(lives) != 1 || lives[0].OutputTokens == 0 {
			t.Errorf("a turn that was computed apart from its client is remembered as %+v", lives)
		}
	})
}

// TestFiftyClientsOverTwoGateways has 50 clients take what they can of one
// account at two gateways that share a Redis: not one token too much is written.
func TestFiftyClientsOverTwoGateways(t *testing.T) {
	redis := testkit.StartRedis(t)
	var written atomic.Int64
	w := &worker{script: func(r *parley.Request) []say {
		said := speech(t, r, 0, "one two three four five six seven")
		written.Add(int64(len(said)))
		return said
	}}
	const outputs = 2000
	limits := limit.Limits{OutputTokensPerMinute: outputs, MonthlyBudget: 1 << 40}
	var fronts []*httptest.Server
	for range 2 {
		books, err := book.OpenRedis(t.Context(), book.RedisConfig{URL: redis.URL})
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(
			Config{
				Models: []models.Config{{
					ID: modelID, Worker: w, Tokenizer: tinyTokenizer(), Template: tinyTemplate(t)}},
				Log: slog.New(slog.DiscardHandler), Limits: books, Share: infer.Sharing{Off: true},
				Admission: infer.Admission{Off: true}})
		if err != nil {
			t.Fatal(err)
		}
		(&server{gateway: g}).limited(limits)
		front := httptest.NewServer(g)
		fronts = append(fronts, front)
		t.Cleanup(func() {
			front.Close()
			g.Close(context.Background())
			_ = books.Close()
		})
	}
	began := time.Now()
	var good, refused atomic.Int64
	var clients sync.WaitGroup
	for i := range 50 {
		clients.Go(func() {
			for n := range 20 {
				r, err := http.Post(fronts[(i+n)%2].URL+"/v1/chat/completions", "application/json",
					strings.NewReader(chatBody(`,"max_tokens":30`)))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				switch r.StatusCode {
				case 200:
					good.Add(1)
				case 429:
					refused.Add(1)
				default:
					t.Errorf("status %d", r.StatusCode)
				}
			}
		})
	}
	clients.Wait()
	http.DefaultClient.CloseIdleConnections()
	// The bucket was full, and filled again while this went on.
	most := outputs + int64(float64(outputs)*time.Since(began).Minutes()) + 1
	if written.Load() > most || good.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d tokens were written, of at most %d; %d answers, %d refusals", written.Load(), most, good.Load(),
			refused.Load())
	}
	t.Logf("%d tokens of at most %d; %d answers, %d refusals", written.Load(), most, good.Load(), refused.Load())
}
