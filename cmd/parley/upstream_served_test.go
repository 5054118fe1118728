package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// callWith sends a request with a key, and returns status and answer.
func callWith(t *testing.T, method, at, key, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// member makes a key at a running server and waits until it counts.
func (c *crew) member(data string, args ...string) string {
	c.t.Helper()
	key := makeKey(c.t, append(args, "--data", data)...)
	until(c.t, "the key counts", func() bool {
		return statusWith(c.t, c.front.url, "") == http.StatusUnauthorized && // it was open to all before the first key
			statusWith(c.t, c.front.url, key) == http.StatusOK
	})
	return key
}

const askSky = `","messages":[{"role":"user","content":"What colour is the sky?"}]`

// TestUpstreamLimits holds keys to their limits at models of services: by requests, by the tokens that the service
// reports, and by how many answers are under way.
func TestUpstreamLimits(t *testing.T) {
	data, s := t.TempDir(), newService(t)
	c := frontOfServiceIn(t, data, s, "")
	ask := func(key, model string) (int, string) {
		return callWith(t, http.MethodPost, c.front.url+"/v1/chat/completions", key,
			`{"max_tokens":50,"model":"`+model+askSky+`}`)
	}
	for name, row := range map[string]struct {
		limit, value string
		served       int // what is answered before the limit is reached
	}{
		"requests": {"--requests-per-minute", "2", 2},
		"input":    {"--input-tokens-per-minute", "1500", 1}, // an answer has 1000 tokens of input, by the service
		"output":   {"--output-tokens-per-minute", "300", 1},
	} {
		for _, model := range []string{"plain", "claude"} {
			key := c.member(data, name+"-"+model, "--org", "org-"+name+"-"+model, "--tier", "enterprise",
				row.limit, row.value)
			served, refusal, began := 0, "", time.Now()
			for range 60 {
				status, text := ask(key, model)
				if status != http.StatusOK {
					refusal = text
					break
				}
				served++
			}
			if served < row.served || !strings.Contains(refusal, "rate_limit_exceeded") {
				t.Errorf("%s of %s: %d served, then %s", name, model, served, refusal)
			}
			if most := map[string]int{"requests": 2, "input": 2, "output": 6}[name]; served > most*(1+minutes(began)) {
				t.Errorf("%d answers are within the limit of %s %s", served, row.limit, row.value)
			}
		}
	}
	key := c.member(data, "one", "--org", "one", "--tier", "enterprise", "--concurrent-requests", "1")
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold, s.asked = hold, nil
	s.mu.Unlock()
	first := make(chan int, 1)
	go func() {
		status, _ := ask(key, "plain")
		first <- status
	}()
	until(t, "the service is asked", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.asked) == 1
	})
	if status, text := ask(key, "claude"); status != http.StatusTooManyRequests ||
		!strings.Contains(text, "under way at a time") {
		t.Errorf("the second answer at a time: %d %s", status, text)
	}
	s.mu.Lock()
	s.hold = nil
	s.mu.Unlock()
	close(hold)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first answer: %d", status)
	}
	if status, text := ask(key, "claude"); status != http.StatusOK {
		t.Errorf("after the first answer: %d %s", status, text)
	}
}

// TestUpstreamBudget charges a key what its answers cost at the prices of the configuration, until its budget is spent.
func TestUpstreamBudget(t *testing.T) {
	data, s := t.TempDir(), newService(t)
	c := frontOfServiceIn(t, data, s, "")
	key := c.member(data, "site", "--org", "acme", "--tier", "enterprise", "--monthly-budget", "0.05")
	served, refusal := 0, ""
	for range 200 {
		status, text := callWith(t, http.MethodPost, c.front.url+"/v1/chat/completions", key,
			`{"model":"gpt","metadata":{"team":"blue"},"max_tokens":50`+`,"messages":[{"role":"user","content":"Hi"}]}`)
		if status != http.StatusOK {
			refusal = text
			break
		}
		served++
	}
	// 800 tokens at 1, 200 at 0.5 and 50 at 10 for a million are 0.0014 an answer.
	if served < 30 || served > 36 || !strings.Contains(refusal, "insufficient_quota") {
		t.Errorf("%d answers at 0.0014 are within 0.05, then %s", served, refusal)
	}
	admin := c.member(data, "admin", "--admin")
	rows := ""
	until(t, "the tag is in the usage", func() bool {
		_, rows = callWith(t, http.MethodGet, c.front.url+
			"/v1/organization/costs?group_by=tag:team&format=csv&start_time="+daysAgo(1), admin, "")
		return strings.Contains(rows, "blue")
	})
}

// minutes is how many minutes have begun since a time, for limits that are filled up again meanwhile.
func minutes(since time.Time) int { return int(time.Since(since)/time.Minute) + 1 }

// daysAgo is a time as the usage API wants it.
func daysAgo(n int) string {
	text, _ := json.Marshal(time.Now().AddDate(0, 0, -n).Unix())
	return string(text)
}

// TestUpstreamSafety applies the policy of the server to prompts and answers of services, streams included, and the
// policy of the model that answers where another one was asked.
func TestUpstreamSafety(t *testing.T) {
	path := filepath.Join(t.TempDir(), "safety.yaml")
	policy := `safety:
  default:
    input: {pii: redact, secrets: block}
    output: {pii: redact}
    restore: false
    refusal: "Not here."
  models:
    strict: {input: {pii: block}, refusal: "Not by this model."}
`
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	s, spare := newService(t), newService(t)
	s.words = []string{"Write", " to", " jane", ".roe", "@exam", "ple.org", "."}
	c := frontOfService(t, s, `  - name: spare
    url: `+spare.URL+`
    key_env: UPSTREAM_TEST_KEY
    models: {strict: strict-1}
fallbacks: {gpt: [strict]}
safety_policy: `+path+"\n")
	c.ready(3)
	ask := func(model, content, more string) (int, string) {
		return post(t, c.front.url+"/v1/chat/completions",
			`{"model":"`+model+`","messages":[{"role":"user","content":"`+content+`"}]`+more+`}`)
	}
	for _, model := range []string{"gpt", "claude"} {
		for _, more := range []string{"", `,"stream":true`} {
			_, text := ask(model, "I am john.doe@example.com.", more)
			if strings.Contains(text, "ple.org") || !strings.Contains(text, "[EMAIL") {
				t.Errorf("%s: the answer has the address: %s", model, text)
			}
			asked, _ := json.Marshal(s.last())
			if strings.Contains(string(asked), "john.doe") || !strings.Contains(string(asked), "[EMAIL_1]") {
				t.Errorf("%s: the service reads the address: %s", model, asked)
			}
		}
		n := len(s.asked)
		status, text := ask(model, "Use the key AKIAIOSFODNN7EXAMPLE and ghp_abcdefghijklmnopqrstuvwxyz0123456789.", "")
		if status != http.StatusBadRequest || !strings.Contains(text, "Not here.") || len(s.asked) != n {
			t.Errorf("%s: a secret: %d %s", model, status, text)
		}
	}
	s.set(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`)
	if status, text := ask("gpt", "What colour is the sky?", ""); status != http.StatusOK {
		t.Errorf("the other model: %d %s", status, text)
	}
	n := len(spare.asked)
	// By the policy of the model that was asked the address is replaced, and so it is before the other one reads it.
	if status, text := ask("gpt", "I am john.doe@example.com.", ""); status != http.StatusOK || len(spare.asked) == n {
		t.Errorf("the other model: %d %s", status, text)
	}
	asked, _ := json.Marshal(spare.last())
	if strings.Contains(string(asked), "john.doe") {
		t.Errorf("the other service reads the address: %s", asked)
	}
}

// TestFallbacksObeyThePolicy refuses what the policy of the model that is asked instead does not allow.
func TestFallbacksObeyThePolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "safety.yaml")
	if err := os.WriteFile(path, []byte(`safety:
  default: {input: {pii: flag}, output: {}}
  models:
    strict: {input: {pii: block}, refusal: "Not by this model."}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, spare := newService(t), newService(t)
	c := frontOfService(t, s, `  - name: spare
    url: `+spare.URL+`
    key_env: UPSTREAM_TEST_KEY
    models: {strict: strict-1}
fallbacks: {gpt: [strict]}
safety_policy: `+path+"\n")
	c.ready(3)
	s.set(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`)
	const address = `{"model":"gpt","messages":[{"role":"user","content":"I am john.doe@example.com."}]}`
	status, text := post(t, c.front.url+"/v1/chat/completions", address)
	if status != http.StatusBadRequest || !strings.Contains(text, "Not by this model.") || len(spare.asked) != 0 {
		t.Errorf("the model that is asked instead, %d times: %d %s", len(spare.asked), status, text)
	}
	if status, text := post(t, c.front.url+"/v1/chat/completions", `{"model":"gpt`+askSky+`}`); status != http.StatusOK {
		t.Errorf("a question that both allow: %d %s", status, text)
	}
}

// TestUpstreamConversations keeps conversations with models of services, which read what was said before, and names
// the model that answered where another one was asked.
func TestUpstreamConversations(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, `  - name: spare
    url: `+newService(t).URL+`
    key_env: UPSTREAM_TEST_KEY
    models: {spare: spare-1}
fallbacks: {gpt: [spare], claude: [spare]}
`)
	c.ready(3)
	// Its first event may come before the other model is asked.
	const backgroundStream = `,"background":true,"stream":true`
	for _, model := range []string{"gpt", "claude"} {
		_, text := post(t, c.front.url+"/v1/conversations", `{"model":"`+model+`"}`)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || made.ID == "" {
			t.Fatalf("%v: %s", err, text)
		}
		at := c.front.url + "/v1/conversations/" + made.ID
		s.set(0, "")
		if status, text := post(t, at+"/messages", `{"content":"What colour is the sky?"}`); status != http.StatusOK ||
			!strings.Contains(text, "The sky is blue.") || !strings.Contains(text, `"model":"`+model+`"`) {
			t.Errorf("%s: %d %s", model, status, text)
		}
		status, text := post(t, at+"/messages", `{"content":"And the sea?","stream":true}`)
		if status != http.StatusOK || !strings.Contains(text, "blue") || !strings.Contains(text, "data: [DONE]") {
			t.Errorf("%s: %d %s", model, status, text)
		}
		if asked, _ := json.Marshal(s.last()["messages"]); strings.Count(string(asked), "The sky is blue.") != 1 {
			t.Errorf("%s reads of the conversation %s", model, asked)
		}
		s.set(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`)
		for _, more := range []string{"", `,"stream":true`, `,"background":true`, backgroundStream} {
			status, text := post(t, at+"/messages", `{"content":"And now?"`+more+`}`)
			if status != http.StatusOK || !strings.Contains(text, `"model":"spare"`) ||
				more != backgroundStream && strings.Contains(text, `"model":"`+model+`"`) {
				t.Errorf("%s%s: %d %s", model, more, status, text)
			}
		}
		_, text = callWith(t, http.MethodGet, at+"/items?limit=100", "", "")
		if strings.Count(text, `"model":"`+model+`"`) != 2 || strings.Count(text, `"model":"spare"`) != 4 {
			t.Errorf("%s: the conversation is %s", model, text)
		}
		var list struct{ Data []struct{ ID, Role string } }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Data {
			if m.Role == "assistant" {
				_, text = callWith(t, http.MethodGet, at+"/messages/"+m.ID+"/stream", "", "")
				if !strings.Contains(text, `"model":"spare"`) || strings.Contains(text, `"model":"`+model+`"`) {
					t.Errorf("%s: followed later, the answer is %s", model, text)
				}
				break
			}
		}
	}
}

// TestUpstreamOllama answers Ollama's routes by models of services, and names the one that answered.
func TestUpstreamOllama(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, `  - name: spare
    url: `+newService(t).URL+`
    key_env: UPSTREAM_TEST_KEY
    models: {spare: spare-1}
fallbacks: {gpt: [spare], claude: [spare]}
`)
	c.ready(3)
	for _, model := range []string{"gpt", "claude"} {
		for path, body := range map[string]string{
			"/api/chat":     `{"model":"` + model + `:latest","messages":[{"role":"user","content":"Hi"}]`,
			"/api/generate": `{"model":"` + model + `:latest","prompt":"Hi"`,
		} {
			for _, more := range []string{"", `,"stream":false`} {
				s.set(0, "")
				_, text := post(t, c.front.url+path, body+more+"}")
				if !strings.Contains(text, `"model":"`+model+`:latest"`) || !strings.Contains(text, "blue") ||
					!strings.Contains(text, `"prompt_eval_count":1000`) || !strings.Contains(text, `"eval_count":50`) ||
					strings.Contains(text, `"context":`) {
					t.Errorf("%s of %s: %s", path, model, text)
				}
				s.set(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`)
				_, text = post(t, c.front.url+path, body+more+"}")
				if !strings.Contains(text, `"model":"spare"`) || strings.Contains(text, `"model":"`+model) ||
					!strings.Contains(text, "blue") {
					t.Errorf("%s of %s, which has no room: %s", path, model, text)
				}
			}
		}
	}
	_, tags := callWith(t, http.MethodGet, c.front.url+"/api/tags", "", "")
	_, shown := post(t, c.front.url+"/api/show", `{"model":"claude"}`)
	if !strings.Contains(tags, `"claude:latest"`) || !strings.Contains(shown, `"capabilities"`) {
		t.Errorf("the models are %s, claude is %s", tags, shown)
	}
}

// TestUpstreamThinking asks services to think as much as clients of each API say.
func TestUpstreamThinking(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, "")
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	const result = `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"","tool_calls":[{"id":"a",` +
		`"type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]`
	for _, row := range []struct {
		path, body, thinking, effort string
	}{
		{"/v1/messages", `"model":"claude","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":3000},` + hi,
			`{"budget_tokens":3000,"type":"enabled"}`, "null"},
		{"/v1/messages", `"model":"claude","max_tokens":9000,` + hi, "null", "null"},
		{"/v1/messages", `"model":"claude","max_tokens":9000,"thinking":{"type":"disabled"},` + hi, "null", "null"},
		{"/v1/chat/completions", `"model":"claude","max_tokens":9000,"reasoning_effort":"high",` + hi,
			`{"budget_tokens":4096,"type":"enabled"}`, "null"},
		{"/v1/chat/completions", `"model":"claude","max_tokens":2000,"reasoning_effort":"high",` + hi,
			`{"budget_tokens":1999,"type":"enabled"}`, "null"},
		{"/v1/chat/completions", `"model":"claude","max_tokens":500,"reasoning_effort":"high",` + hi, "null", "null"},
		{"/v1/chat/completions", `"model":"claude","max_tokens":9000,"reasoning_effort":"none",` + hi, "null", "null"},
		{"/v1/chat/completions", `"model":"claude","max_tokens":9000,"reasoning_effort":"high",` + result, "null", "null"},
		{"/v1/chat/completions", `"model":"gpt","reasoning_effort":"low",` + hi, "null", `"low"`},
		{"/v1/chat/completions", `"model":"gpt",` + hi, "null", "null"},
		{"/v1/responses", `"model":"gpt","reasoning":{"effort":"medium"},"input":"Hi"`, "null", `"medium"`},
		{"/api/chat", `"model":"claude","think":true,"options":{"num_predict":9000},` + hi,
			`{"budget_tokens":2048,"type":"enabled"}`, "null"},
		{"/api/chat", `"model":"gpt","think":"high",` + hi, "null", `"high"`},
	} {
		if status, text := post(t, c.front.url+row.path, "{"+row.body+"}"); status != http.StatusOK {
			t.Errorf("%s %s: %d %s", row.path, row.body, status, text)
			continue
		}
		thinking, _ := json.Marshal(s.last()["thinking"])
		effort, _ := json.Marshal(s.last()["reasoning_effort"])
		if string(thinking) != row.thinking || string(effort) != row.effort {
			t.Errorf("%s %s: the service is asked %s, %s", row.path, row.body, thinking, effort)
		}
	}
}

// TestUpstreamSettings reads the key from a file, gives a service up that is silent for too long, and refuses
// settings that cannot be meant.
func TestUpstreamSettings(t *testing.T) {
	s := newService(t)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(serviceKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := frontOf(t, `model: none
upstreams:
  - {name: a, url: "`+s.URL+`", key_file: "`+file+`", timeout: 1s, models: {m: theirs}}
`)
	c.ready(1)
	if status, text := post(t, c.front.url+"/v1/chat/completions", `{"model":"m`+askSky+`}`); status != http.StatusOK {
		t.Errorf("with the key of the file: %d %s", status, text)
	}
	hold := make(chan struct{})
	defer close(hold)
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	if status, text := post(t, c.front.url+"/v1/chat/completions", `{"model":"m`+askSky+`}`); status < 500 ||
		!strings.Contains(text, "sent nothing for 1s") || strings.Contains(text, s.URL) {
		t.Errorf("a silent service: %d %s", status, text)
	}
	for config, want := range map[string]string{
		`[{name: a, url: "http://x", key_file: /no/such, models: {m: t}}]`:                         "/no/such",
		`[{name: a, url: "http://x", key_env: NO_SUCH_VARIABLE, models: {m: t}}]`:                  "NO_SUCH_VARIABLE",
		`[{name: a, url: "http://x", timeout: soon, models: {m: t}}]`:                              "soon",
		`[{name: a, url: "http://x", models: {m: {name: t, price: cheap}}}]`:                       "price",
		`[{name: a, url: "http://x", models: {m: {name: t, context: -1}}}]`:                        "context",
		`[{name: a, url: "http://x", kind: telepathy, models: {m: t}}]`:                            "telepathy",
		`[{name: a, url: "http://x"}]`:                                                             "models",
		`[{name: a, url: "http://x", models: {m: t}}, {name: a, url: "http://y", models: {n: t}}]`: "a",
	} {
		path := filepath.Join(t.TempDir(), "parley.yaml")
		if err := os.WriteFile(path, []byte("model: none\nupstreams: "+config+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := invoke(t, "serve", "--config", path, "--data", t.TempDir(), "--addr", "127.0.0.1:0")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}
