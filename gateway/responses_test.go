package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/convo"
)

// keep makes the server store what it says, in a file of its own.
func keep(t *testing.T) func(*Config) { return keepIn(t, storeName(t)) }

// storeName names the store of the next server: a file of its own, unless the
// tests run on another database.
var storeName = func(t *testing.T) string { return filepath.Join(t.TempDir(), "parley.db") }

func keepIn(t *testing.T, path string) func(*Config) {
	return func(c *Config) {
		store, err := convo.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		c.Store = store
		t.Cleanup(func() { store.Close() })
	}
}

// startKept serves w with a store. It belongs inside a synctest bubble.
func startKept(t *testing.T, w parley.Worker, change ...func(*Config)) *server {
	s := start(t, w, append([]func(*Config){keep(t)}, change...)...)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.gateway.Close(ctx)
	})
	return s
}

// An object is a JSON object that a test looks into.
type object map[string]any

func parseObject(t *testing.T, body string) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(body), &o); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return o
}

// at walks down by names and, for lists, by their last entry.
func (o object) at(names ...string) any {
	var v any = map[string]any(o)
	for _, name := range names {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[len(list)-1]
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func (o object) text(names ...string) string {
	s, _ := o.at(names...).(string)
	return s
}

func (s *server) call(method, path, body string, headers ...string) (int, object) {
	s.t.Helper()
	response, answer := s.do(method, path, body, headers...)
	return response.StatusCode, parseObject(s.t, answer)
}

func responseBody(input, extra string) string {
	return `{"model":"` + modelID + `","input":` + input + extra + `}`
}

// respond wants a response that went well.
func (s *server) respond(input, extra string) object {
	s.t.Helper()
	status, o := s.call("POST", "/v1/responses", responseBody(input, extra))
	if status != 200 {
		s.t.Fatalf("status %d: %v", status, o)
	}
	return o
}

// namedEvents returns the names and the data of a stream.
func namedEvents(t *testing.T, body string) (names, data []string) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		if strings.HasPrefix(block, ":") {
			continue
		}
		name, rest, ok := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		if !ok || strings.Contains(rest, "\n") {
			t.Fatalf("not an event: %q", block)
		}
		o := parseObject(t, rest)
		if o.text("type") != name || o["sequence_number"] != float64(len(names)) {
			t.Errorf("event %d is called %s: %s", len(names), name, rest)
		}
		names, data = append(names, name), append(data, rest)
	}
	return names, data
}

// askedText is the prompt that the worker saw in its n-th request.
func (w *worker) askedText(n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return tinyTokenizer().Decode(w.asked[n].Prompt, false)
}

func TestResponseWhole(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello there<|im_end|>", time.Second)}
		s := startKept(t, w)
		response, body := s.do("POST", "/v1/responses",
			responseBody(`"Hi"`, `,"instructions":"Be brief.","temperature":0.7,"metadata":{"a":"b"},"user":"u"`))
		if response.StatusCode != 200 {
			t.Fatalf("%d: %s", response.StatusCode, body)
		}
		published.want(t, "Response", body)
		o := parseObject(t, body)
		for _, c := range []struct {
			want any
			at   []string
		}{
			{"completed", []string{"status"}}, {"Hello there", []string{"output", "content", "text"}},
			{"Be brief.", []string{"instructions"}},
			{0.7, []string{"temperature"}}, {"b", []string{"metadata", "a"}}, {nil, []string{"error"}},
			{2.0, []string{"usage", "input_tokens_details", "cached_tokens"}},
			{0.0, []string{"usage", "input_tokens_details", "cache_write_tokens"}},
			{0.0, []string{"usage", "output_tokens_details", "reasoning_tokens"}}, {true, []string{"store"}},
		} {
			if got := o.at(c.at...); got != c.want {
				t.Errorf("%v is %v, want %v", c.at, got, c.want)
			}
		}
		if want := "<|im_start|>system\nBe " +
			"brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"; w.askedText(0) != want {
			t.Errorf("the prompt is %q", w.askedText(0))
		}
		_, stored := s.do("GET", "/v1/responses/"+o.text("id"), "")
		wantBody(t, stored, body)
		s.wantMetric(`parley_http_requests_total{code="200",route="/v1/responses"}`, "1")
		s.wantMetric(`parley_http_requests_total{code="200",route="/v1/responses/{id}"}`, "1")
	})
}

const textEvents = "response.created response.in_progress response.output_item.added response.content_part.added " +
	"response.output_text.delta response.output_text.delta " +
	"response.output_text.done response.content_part.done response.output_item.done response.completed"

func TestResponseStream(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "A b<|im_end|>", time.Second)})
		for _, extra := range []string{``, `,"store":false`,
			`,"include":["message.output_text.logprobs"],"top_logprobs":2`} {
			response, body := s.do("POST", "/v1/responses",
				responseBody(`[{"role":"user","content":"Hi"}]`, `,"stream":true`+extra))
			if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
				t.Fatalf("%d: %s", response.StatusCode, body)
			}
			names, data := namedEvents(t, body)
			if got := strings.Join(names, " "); got != textEvents {
				t.Errorf("got %s", got)
			}
			for _, e := range data {
				published.want(t, "ResponseStreamEvent", e)
			}
			last := parseObject(t, data[len(data)-1])
			if got := last.text("response", "output", "content", "text"); got != "A b" {
				t.Errorf("the last event says %q", got)
			}
			if first := parseObject(t, data[0]); len(first.at("response", "output").([]any)) != 0 {
				t.Errorf("the first event has output: %s", data[0])
			}
			if strings.Contains(extra, "logprobs") && last.at("response", "output", "content", "logprobs",
				"top_logprobs") == nil {
				t.Errorf("no log-probabilities in %s", data[len(data)-1])
			}
		}
	})
}

func TestResponseTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "one two three four<|im_end|>", time.Second)})
		_, whole := s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"stream":true`))
		_, data := namedEvents(t, whole)
		id := parseObject(t, data[0]).text("response", "id")
		_, again := s.do("GET", "/v1/responses/"+id+"?stream=true", "")
		wantBody(t, again, whole)
		_, rest := s.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=3", "")
		blocks := strings.SplitAfter(whole, "\n\n")
		wantBody(t, rest, strings.Join(blocks[4:], ""))
		if response, body := s.do("GET", "/v1/responses/"+id+"?stream=true&starting_after=1000",
			""); response.StatusCode != 200 || body != ": ping\n\n" {
			t.Errorf("after the end: %d %q", response.StatusCode, body)
		}
		if status, _ := s.call("GET", "/v1/responses/"+id+"?stream=true&starting_after=x", ""); status != 400 {
			t.Errorf("a wrong number gives %d", status)
		}
	})
}

func TestResponseChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
		s := startKept(t, w)
		first := s.respond(`"One"`, `,"instructions":"Only now."`)
		second := s.respond(`[{"role":"user","content":[{"type":"input_text","text":"Two"}]}]`,
			`,"previous_response_id":"`+first.text("id")+`"`)
		if got := w.askedText(1); strings.Contains(got, "Only now") ||
			!strings.Contains(got, "user\nOne<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nTwo") {
			t.Errorf("the prompt is %q", got)
		}
		if second.text("previous_response_id") != first.text("id") {
			t.Errorf("got %v", second)
		}
		_, o := s.call("GET", "/v1/responses/"+second.text("id")+"/input_items", "")
		if got := o.text("data", "content", "text"); got != "Two" {
			t.Errorf("the input is %v", o)
		}
		if status, o := s.call("DELETE", "/v1/responses/"+second.text("id"), ""); status != 200 ||
			o["deleted"] != true || o.text("object") != "response" {
			t.Errorf("%d %v", status, o)
		}
		if status, _ := s.call("GET", "/v1/responses/"+second.text("id"), ""); status != 404 {
			t.Errorf("a deleted response gives %d", status)
		}
		status, o := s.call("POST", "/v1/responses",
			responseBody(`"x"`, `,"previous_response_id":"`+second.text("id")+`"`))
		if status != 400 || o.text("error", "code") != "previous_response_not_found" ||
			o.text("error", "param") != "previous_response_id" {
			t.Errorf("%d %v", status, o)
		}
	})
}

func TestInputItems(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "Yes<|im_end|>", 0)}, roomy)
		o := s.respond(
			`[{"role":"developer","content":"D"},{"role":"user","content":"U"},{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"R"}]},
			{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"42"},{"role":"assistant","content":"A"}]`, "")
		path := "/v1/responses/" + o.text("id") + "/input_items"
		_, body := s.do("GET", path, "")
		published.want(t, "ResponseItemList", body)
		_, list := s.call("GET", path+"?limit=2&order=asc", "")
		if list["has_more"] != true || list.text("data", "content", "text") != "U" {
			t.Errorf("got %v", list)
		}
		_, list = s.call("GET", path+"?order=asc&after="+list.text("last_id"), "")
		if len(list["data"].([]any)) != 4 || list["has_more"] != false {
			t.Errorf("got %v", list)
		}
		for _, query := range []string{"?limit=0", "?limit=101", "?order=up", "?after=nobody"} {
			if status, o := s.call("GET", path+query, ""); status != 400 && status != 404 {
				t.Errorf("%s gives %d: %v", query, status, o)
			}
		}
		status, count := s.call("POST", "/v1/responses/input_tokens", responseBody(`"Hi"`, ""))
		if status != 200 || count["input_tokens"].(float64) < 5 {
			t.Errorf("%d %v", status, count)
		}
	})
}

func TestResponseCutByLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: func(r *parley.Request) []say {
			return []say{{delta: parley.Delta{Tokens: tokensOf(t, "Hel"), Finish: parley.FinishLength,
				Usage: &parley.Usage{PromptTokens: 3, OutputTokens: 2}}}}
		}})
		o := s.respond(`"Hi"`, `,"max_output_tokens":16`)
		if o.text("status") != "incomplete" || o.text("incomplete_details", "reason") != "max_output_tokens" ||
			o.text("output", "status") != "incomplete" || o["max_output_tokens"] != 16.0 {
			t.Errorf("got %v", o)
		}
		_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"stream":true`))
		if names, _ := namedEvents(t, body); names[len(names)-1] != "response.incomplete" {
			t.Errorf("got %v", names)
		}
	})
}

func TestResponseFails(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		early := &worker{script: func(*parley.Request) []say {
			return []say{{after: time.Second, err: parley.Errorf(parley.Overloaded, "No room.")}}
		}}
		s := startKept(t, early)
		for _, extra := range []string{"", `,"stream":true`} {
			if status, o := s.call("POST", "/v1/responses", responseBody(`"Hi"`, extra)); status != 503 ||
				o.text("error", "code") != "overloaded" {
				t.Errorf("%d %v", status, o)
			}
		}
		late := &worker{script: func(r *parley.Request) []say {
			return []say{{delta: parley.Delta{Tokens: tokensOf(t, "A")}},
				{after: time.Second, err: parley.Errorf(parley.Overloaded, "No room.")}}
		}}
		s = startKept(t, late)
		_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"stream":true`))
		names, data := namedEvents(t, body)
		last := data[len(data)-1]
		published.want(t, "ResponseStreamEvent", last)
		o := parseObject(t, last)
		if names[len(names)-1] != "response.failed" || o.text("response", "error", "message") != "No room." ||
			o.text("response", "error", "code") != "server_error" {
			t.Errorf("got %s", last)
		}
		if _, stored := s.call("GET", "/v1/responses/"+o.text("response", "id"),
			""); stored.text("status") != "failed" || stored.text("output", "content", "text") != "A" {
			t.Errorf("stored: %v", stored)
		}
		s.settled(late)
	})
}

// TestResponseClientLeaves shows that a stored stream ends with its client.
func TestResponseClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four five six<|im_end|>", time.Second)}
		s := startKept(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		response := s.open(ctx, "POST", "/v1/responses", responseBody(`"Hi"`, `,"stream":true`))
		reader := bufio.NewReader(response.Body)
		id := ""
		for line := ""; !strings.Contains(line, "output_text.delta"); {
			line, _ = reader.ReadString('\n')
			if data, ok := strings.CutPrefix(line, "data: "); ok && id == "" {
				id = parseObject(t, data).text("response", "id")
			}
		}
		cancel()
		s.settled(w)
		if _, o := s.call("GET", "/v1/responses/"+id, ""); o.text("status") != "cancelled" ||
			o.text("output", "content", "text") != "one" {
			t.Errorf("got %v", o)
		}
	})
}

func TestResponseKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
		s := startKept(t, w)
		_, first := s.do("POST", "/v1/responses", responseBody(`"Hi"`, ""), "Idempotency-Key", "k")
		_, again := s.do("POST", "/v1/responses", responseBody(`"Hi"`, ""), "Idempotency-Key", "k")
		wantBody(t, again, first)
		if status, o := s.call("POST", "/v1/responses", responseBody(`"Other"`, ""), "Idempotency-Key",
			"k"); status != 409 || o.text("error", "code") != "conflict" {
			t.Errorf("the key with another request: %d %v", status, o)
		}
		s.settled(w)
	})
}

func TestResponseTruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
		s := startKept(t, w)
		turn := `{"role":"user","content":"` + strings.Repeat("long ", 8) + `"},{"role":"assistant","content":"ok"},`
		input := `[` + strings.Repeat(turn, 6) + `{"role":"user","content":"last"}]`
		if status, o := s.call("POST", "/v1/responses", responseBody(input, "")); status != 400 ||
			o.text("error", "code") != "context_length_exceeded" || o.text("error", "param") != "input" {
			t.Errorf("%d %v", status, o)
		}
		o := s.respond(input, `,"truncation":"auto"`)
		if n, _ := o["dropped_items"].(float64); n < 2 || !strings.Contains(w.askedText(0), "last") {
			t.Errorf("dropped %v of %q", o["dropped_items"], w.askedText(0))
		}
	})
}
