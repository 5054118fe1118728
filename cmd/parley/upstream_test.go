package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A service is an upstream that answers in the recorded shape of a hosted one: OpenAI's on
// /v1/chat/completions, Anthropic's on /v1/messages. It keeps what it was asked.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []map[string]any
	keys  []string
	// usage says whether it reports tokens.
	usage bool
	// fail, if set, is the status and body of the answer.
	status int
	body   string
	// cut has it break off the answer after the first word.
	cut bool
	// words are the answer, if not that the sky is blue. Answers wait until hold, if set, is closed.
	words []string
	hold  chan struct{}
}

const serviceKey = "sk-upstream-0123456789abcdef"

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{usage: true}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP answers like the service.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.Header.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		key = bearer
	}
	if key != serviceKey {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s.","type":"invalid_request_error"}}`, key)
		return
	}
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"object":"list","data":[]}`)
		return
	}
	text, _ := io.ReadAll(r.Body)
	var asked map[string]any
	_ = json.Unmarshal(text, &asked)
	s.asked, s.keys = append(s.asked, asked), append(s.keys, key)
	if hold := s.hold; hold != nil {
		s.mu.Unlock()
		select {
		case <-hold:
		case <-r.Context().Done():
		}
		s.mu.Lock()
	}
	if s.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		fmt.Fprint(w, s.body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.URL.Path == "/v1/messages" {
		s.message(w, asked)
		return
	}
	s.chat(w, asked)
}

func (s *service) set(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

// says is what the service answers.
func (s *service) says() []string {
	if s.words != nil {
		return s.words
	}
	return []string{"The", " sky", " is", " blue", "."}
}

func (s *service) last() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

// chat streams as OpenAI's service does: with an id per chunk, a role first, nulls, and the usage
// in a chunk without choices.
func (s *service) chat(w io.Writer, asked map[string]any) {
	chunk := func(choices, usage string) {
		fmt.Fprintf(w, `data: {"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":%q,`+
			`"service_tier":"default","system_fingerprint":"fp","choices":[%s],"usage":%s}`+"\n\n",
			asked["model"], choices, usage)
	}
	delta := func(d, finish string) {
		chunk(`{"index":0,"delta":`+d+`,"logprobs":null,"finish_reason":`+finish+`}`, "null")
	}
	delta(`{"role":"assistant","content":"","refusal":null}`, "null")
	if asked["tools"] != nil {
		delta(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}`,
			"null")
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`, "null")
		delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Rom\"}"}}]}`, "null")
		delta(`{}`, `"tool_calls"`)
	} else {
		for _, word := range s.says() {
			delta(fmt.Sprintf(`{"content":%q}`, word), "null")
			if s.cut {
				return
			}
		}
		delta(`{}`, `"stop"`)
	}
	if s.usage {
		chunk("", `{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,`+
			`"prompt_tokens_details":{"cached_tokens":200,"audio_tokens":0},`+
			`"completion_tokens_details":{"reasoning_tokens":44}}`)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// message streams as Anthropic's service does.
func (s *service) message(w io.Writer, asked map[string]any) {
	event := func(name, data string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", name, name, data)
	}
	usage := func(text string) string {
		if !s.usage {
			return `"x":0`
		}
		return `"usage":` + text
	}
	event("message_start", fmt.Sprintf(`"message":{"id":"msg_1","type":"message","role":"assistant","model":%q,`+
		`"content":[],"stop_reason":null,"stop_sequence":null,%s}`, asked["model"],
		usage(`{"input_tokens":700,"cache_creation_input_tokens":100,"cache_read_input_tokens":200,"output_tokens":1}`)))
	event("ping", `"x":0`)
	event("content_block_start", `"index":0,"content_block":{"type":"thinking","thinking":"","signature":""}`)
	event("content_block_delta", `"index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}`)
	event("content_block_delta", `"index":0,"delta":{"type":"signature_delta","signature":"c2ln"}`)
	event("content_block_stop", `"index":0`)
	event("content_block_start", `"index":1,"content_block":{"type":"text","text":""}`)
	for _, word := range s.says() {
		event("content_block_delta", fmt.Sprintf(`"index":1,"delta":{"type":"text_delta","text":%q}`, word))
	}
	event("content_block_stop", `"index":1`)
	reason := "end_turn"
	if asked["tools"] != nil {
		reason = "tool_use"
		event("content_block_start", `"index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}`)
		event("content_block_delta", `"index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\": \"Rom\"}"}`)
		event("content_block_stop", `"index":2`)
		event("content_block_start", `"index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"weather","input":{}}`)
		event("content_block_stop", `"index":3`)
	}
	event("message_delta", fmt.Sprintf(`"delta":{"stop_reason":%q,"stop_sequence":null},%s`, reason,
		usage(`{"output_tokens":50}`)))
	event("message_stop", `"x":0`)
}

// frontOfService serves the models gpt and claude of a service, and nothing of its own.
func frontOfService(t *testing.T, s *service, more string) *crew {
	t.Helper()
	return frontOfServiceIn(t, t.TempDir(), s, more)
}

// frontOfServiceIn is frontOfService with its data in a directory.
func frontOfServiceIn(t *testing.T, data string, s *service, more string) *crew {
	t.Helper()
	t.Setenv("UPSTREAM_TEST_KEY", serviceKey)
	c := frontIn(t, data, `model: none
upstreams:
  - name: chats
    url: `+s.URL+`/v1
    key_env: UPSTREAM_TEST_KEY
    models:
      gpt: {name: gpt-9-2030, context: 4000, price: 1/0.5/10, fields: {max_tokens: max_completion_tokens, seed: ""}}
      plain: gpt-9-mini
  - name: messages
    url: `+s.URL+`
    kind: anthropic
    key_env: UPSTREAM_TEST_KEY
    models:
      claude: {name: claude-9, output: 900}
`+more)
	c.ready(2)
	return c
}

// TestUpstreams answers conversations, streams and tools through services of both kinds, whose tokenizers
// are not known: the usage is theirs.
func TestUpstreams(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, "")
	for _, model := range []string{"gpt", "plain", "claude"} {
		status, text := post(t, c.front.url+"/v1/chat/completions", `{"model":"`+model+`","max_tokens":77,`+
			`"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"What colour is the sky?"}]}`)
		for _, want := range []string{`"content":"The sky is blue."`, `"model":"` + model + `"`, `"prompt_tokens":1000`,
			`"completion_tokens":50`, `"cached_tokens":200`, `"finish_reason":"stop"`} {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, no %s in %s", model, status, want, text)
			}
		}
		if strings.Contains(text, "estimated") {
			t.Errorf("%s: usage that was reported is called an estimate: %s", model, text)
		}
	}
	if asked := s.asked[0]; asked["model"] != "gpt-9-2030" || asked["max_completion_tokens"] != 77. ||
		asked["max_tokens"] != nil || asked["seed"] != nil || asked["stream_options"] == nil {
		t.Errorf("gpt was asked %v", asked)
	}
	if asked := s.last(); asked["model"] != "claude-9" || asked["system"] != "Be brief." ||
		len(asked["messages"].([]any)) != 1 || asked["max_tokens"] != 77. {
		t.Errorf("claude was asked %v", asked)
	}
	const tools = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]`
	for model, want := range map[string]string{"gpt": `"arguments":"{\"city\":\"Rom\"}"`,
		"claude": `"arguments":"{\"city\": \"Rom\"}"`} {
		_, text := post(t, c.front.url+"/v1/chat/completions", `{"model":"`+model+`"`+tools+
			`,"messages":[{"role":"user","content":"Rome?"},`+
			`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":`+
			`{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},`+
			`{"role":"tool","tool_call_id":"a","content":"rain"},{"role":"user","content":"And Rome?"}]}`)
		if !strings.Contains(text, want) || !strings.Contains(text, `"finish_reason":"tool_calls"`) {
			t.Errorf("%s calls no tool: %s", model, text)
		}
	}
	_, text := post(t, c.front.url+"/v1/chat/completions",
		`{"model":"claude","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
	if strings.Count(text, `"content":" sky"`) != 1 || !strings.Contains(text, `"reasoning_content":"Hm."`) ||
		!strings.Contains(text, "data: [DONE]") {
		t.Errorf("the stream is %s", text)
	}
	_, text = post(t, c.front.url+"/v1/messages",
		`{"model":"claude","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]`+
			`,"tools":[{"name":"weather","input_schema":{"type":"object"}}]}`)
	for _, want := range []string{`"type":"thinking"`, `"text":"The sky is blue."`, `"input":{"city":"Rom"}`,
		`"stop_reason":"tool_use"`, `"output_tokens":50`} {
		if !strings.Contains(strings.ReplaceAll(text, `: "`, `:"`), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestUpstreamToolResults shows Anthropic's service calls and results as it wants them.
func TestUpstreamToolResults(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, "")
	post(t, c.front.url+"/v1/chat/completions", `{"model":"claude","messages":[{"role":"user","content":"Rome?"},`+
		`{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":`+
		`{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]},`+
		`{"role":"tool","tool_call_id":"a","content":"rain"},{"role":"user","content":"And now?"}]}`)
	got, _ := json.Marshal(s.last()["messages"])
	want := `[{"content":[{"text":"Rome?","type":"text"}],"role":"user"},` +
		`{"content":[{"id":"a","input":{"city":"Paris"},"name":"weather","type":"tool_use"}],"role":"assistant"},` +
		`{"content":[{"content":"rain","tool_use_id":"a","type":"tool_result"},{"text":"And now?","type":"text"}],"role":"user"}]`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s.last()["max_tokens"] != 900. {
		t.Errorf("the answer may have %v tokens", s.last()["max_tokens"])
	}
	status, text := post(t, c.front.url+"/v1/chat/completions",
		`{"model":"claude","temperature":1.5,"messages":[{"role":"user","content":"Hi"}]}`)
	if status != http.StatusBadRequest || !strings.Contains(text, "from 0 to 1") {
		t.Errorf("%d %s", status, text)
	}
}

// TestUpstreamsWithoutUsage bills estimates, and says so.
func TestUpstreamsWithoutUsage(t *testing.T) {
	s := newService(t)
	s.usage = false
	c := frontOfService(t, s, "")
	for _, model := range []string{"gpt", "claude"} {
		_, text := post(t, c.front.url+"/v1/chat/completions",
			`{"model":"`+model+`","messages":[{"role":"user","content":"What colour is the sky?"}]}`)
		var answer struct {
			Usage struct {
				Prompt int `json:"prompt_tokens"`
				Output int `json:"completion_tokens"`
			}
			Parley struct {
				Estimated bool `json:"estimated_usage"`
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		u := answer.Usage
		if u.Prompt < 5 || u.Prompt > 40 || u.Output < 3 || u.Output > 8 || !answer.Parley.Estimated {
			t.Errorf("%s: %+v in %s", model, answer, text)
		}
	}
}

// TestUpstreamErrors reach the client with their status, and never with the key.
func TestUpstreamErrors(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, "")
	for _, row := range []struct {
		status       int
		body, expect string
		want         int
	}{
		{400, `{"error":{"message":"This model's maximum context length is 10 tokens.","code":"context_length_exceeded"}}`,
			"context_length_exceeded", 400},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 5 maximum"}}`,
			"context_length_exceeded", 400},
		{429, `{"error":{"message":"Slow down, ` + serviceKey + `"}}`, "Slow down", 429},
		{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "", 503},
	} {
		for _, model := range []string{"gpt", "claude"} {
			s.set(row.status, row.body)
			status, text := post(t, c.front.url+"/v1/chat/completions",
				`{"model":"`+model+`","messages":[{"role":"user","content":"Hi"}]}`)
			if status != row.want || !strings.Contains(text, row.expect) || strings.Contains(text, serviceKey) {
				t.Errorf("%s, %d: %d %s", model, row.status, status, text)
			}
		}
	}
}

// TestParleyBehindParley fronts a Parley server by its URL, as a service of both kinds.
func TestParleyBehindParley(t *testing.T) {
	behind := startServer(t, calmly...)
	go func() {
		for range behind.lines {
		}
	}()
	c := frontOf(t, `model: none
upstreams:
  - {name: a, url: "`+behind.url+`", models: {first: polly-mini}}
  - {name: b, url: "`+behind.url+`", kind: anthropic, models: {second: polly-mini}}
`)
	c.ready(2)
	body := func(model string) string {
		return `{"model":"` + model + `","temperature":0,"max_tokens":24,"messages":[{"role":"user","content":"Tell me a story."}]}`
	}
	type answer struct {
		Model   string
		Choices []struct{ Message struct{ Content string } }
		Usage   struct {
			Prompt int `json:"prompt_tokens"`
			Output int `json:"completion_tokens"`
		}
	}
	read := func(at, model string) (a answer) {
		status, text := post(t, at+"/v1/chat/completions", body(model))
		if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
			t.Fatalf("%d %v: %s", status, err, text)
		}
		return a
	}
	want := read(behind.url, "polly-mini")
	for _, model := range []string{"first", "second"} {
		got := read(c.front.url, model)
		if got.Model != model || got.Choices[0].Message.Content != want.Choices[0].Message.Content ||
			got.Usage != want.Usage {
			t.Errorf("%s: got %+v, want %+v", model, got, want)
		}
	}
}

// TestFallbacks asks another model where one fails, has no room or too little context: the answer, the ledger
// and the timeline name the one that answered.
func TestFallbacks(t *testing.T) {
	s := newService(t)
	c := frontOfService(t, s, `  - name: spare
    url: `+newService(t).URL+`
    key_env: UPSTREAM_TEST_KEY
    models: {spare: spare-1}
fallbacks:
  gpt: [spare]
  claude: {overload: spare}
`)
	c.ready(3)
	ask := func(model, more string) (int, string) {
		return post(t, c.front.url+"/v1/chat/completions",
			`{"model":"`+model+`","messages":[{"role":"user","content":"Hi"}]`+more+`}`)
	}
	for _, row := range []struct {
		model  string
		status int
		body   string
		cause  string
		want   int
	}{
		{"gpt", 429, `{"error":{"message":"slow down"}}`, "overload", 200},
		{"gpt", 400, `{"error":{"message":"maximum context length is 5"}}`, "context", 200},
		{"gpt", 400, `{"error":{"message":"unknown field"}}`, "", 400},
		{"claude", 529, `{"error":{"type":"overloaded_error","message":"busy"}}`, "overload", 200},
		{"claude", 400, `{"error":{"message":"prompt is too long"}}`, "", 400},
		{"gpt", 401, `{"error":{"message":"broken"}}`, "error", 200},
	} {
		s.set(row.status, row.body)
		for _, stream := range []string{"", `,"stream":true`} {
			if row.cause == "error" && stream != "" {
				continue // its worker is taken out by now
			}
			status, text := ask(row.model, stream)
			if status != row.want || row.want == 200 && (!strings.Contains(text, `"model":"spare"`) ||
				strings.Contains(text, `"model":"`+row.model+`"`) || !strings.Contains(text, "blue")) {
				t.Errorf("%s, %d: %d %s", row.model, row.status, status, text)
			}
			record := c.lastRequest()
			step := `"from":"` + row.model + `","to":"spare","cause":"` + row.cause + `"`
			if row.cause != "" && (!strings.Contains(record, step) ||
				!strings.Contains(record, "fall back from "+row.model+" to spare") ||
				!strings.Contains(record, `"model":"spare"`)) {
				t.Errorf("%s, %d: the timeline is %s", row.model, row.status, record)
			}
			if row.cause == "" && strings.Contains(record, "fall back") {
				t.Errorf("%s, %d: it fell back: %s", row.model, row.status, record)
			}
		}
	}
	s.set(529, `{"error":{"type":"overloaded_error","message":"busy"}}`)
	for path, body := range map[string]string{
		"/v1/messages":  `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`,
		"/v1/responses": `{"model":"claude","input":"Hi"}`,
	} {
		if _, text := post(t, c.front.url+path, body); !strings.Contains(text, `"model":"spare"`) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// lastRequest returns the record of the newest request.
func (c *crew) lastRequest() string {
	c.t.Helper()
	resp, err := http.Get(c.front.url + "/admin/api/requests?limit=1")
	if err != nil {
		c.t.Fatal(err)
	}
	var list struct{ Data []json.RawMessage }
	text := bodyOf(c.t, resp)
	if err := json.Unmarshal(text, &list); err != nil || len(list.Data) == 0 {
		c.t.Fatalf("%v: %s", err, text)
	}
	return string(list.Data[0])
}

// TestFallbacksBeforeTheFirstToken asks no other model once a token was sent, and charges the model that answered.
func TestFallbacksBeforeTheFirstToken(t *testing.T) {
	s, spare := newService(t), newService(t)
	c := frontOfService(t, s, `  - name: spare
    url: `+spare.URL+`
    key_env: UPSTREAM_TEST_KEY
    models: {spare: {name: spare-1, price: 2/1/20}}
fallbacks:
  gpt: [spare]
`)
	c.ready(3)
	// The ledger may be behind the client where the database is slow.
	wantUsed := func(rows ...string) {
		t.Helper()
		table := ""
		for range 300 {
			resp, err := http.Get(c.front.url + "/v1/organization/usage/completions?group_by=model&format=csv" +
				"&start_time=" + strconv.FormatInt(time.Now().AddDate(0, 0, -1).Unix(), 10))
			if err != nil {
				t.Fatal(err)
			}
			table = string(bodyOf(t, resp))
			if !slices.ContainsFunc(rows, func(row string) bool { return !strings.Contains(table, row) }) {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("used was %s", table)
	}
	s.set(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`)
	if _, text := post(t, c.front.url+"/v1/chat/completions",
		`{"model":"gpt","messages":[{"role":"user","content":"Hi"}]}`); !strings.Contains(text, `"model":"spare"`) {
		t.Errorf("it did not fall back: %s", text)
	}
	// 800 tokens at 2, 200 at 1 and 50 at 20 for a million; nothing for the model that did not answer.
	wantUsed(",gpt,1,0,0,0,0.00\n", ",spare,1,1000,200,50,0.0028\n")
	s.set(0, "")
	s.mu.Lock()
	s.cut = true
	s.mu.Unlock()
	_, text := post(t, c.front.url+"/v1/chat/completions",
		`{"model":"gpt","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
	if !strings.Contains(text, `"content":"The"`) || !strings.Contains(text, `"error"`) || strings.Contains(text, "spare") {
		t.Errorf("the stream that was broken off is %s", text)
	}
	wantUsed(",gpt,2,", ",spare,1,1000,200,50,0.0028\n")
	spare.mu.Lock()
	defer spare.mu.Unlock()
	if len(spare.asked) != 1 {
		t.Errorf("the other model was asked %d times", len(spare.asked))
	}
}
