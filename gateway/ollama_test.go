package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/dialect"
	"parley/gateway/models"
	"parley/gateway/ollama"
	"parley/gateway/tenant"
	"parley/limit"
)

var (
	createdAt = regexp.MustCompile(`"created_at":"[^"]*"`)
	ollamaURL = `{"model":"` + modelID + `"`
)

// ollama posts to a route of Ollama's API and returns status and answer, without times.
func (s *server) ollama(path, extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/api/"+path, ollamaURL+extra+`}`)
	return response.StatusCode, callID.ReplaceAllString(createdAt.ReplaceAllString(body, `"created_at":"T"`), "CALL")
}

const ollamaHi = `,"messages":[{"role":"user","content":"Hi"}]`

func TestOllamaChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello you<|im_end|>", time.Second)}
		s := start(t, w)
		output := len(tokensOf(t, "Hello you<|im_end|>"))
		_, body := s.ollama("chat", ollamaHi+
			`,"stream":false,"options":{"temperature":0,"seed":7,"num_predict":20,"top_k":5}`)
		request := w.request(t)
		counts := `"total_duration":` + itoa(output) + `000000000,"load_duration":10000000,"prompt_eval_count":` +
			itoa(len(request.Prompt)) + `,"prompt_eval_duration":20000000,"eval_count":` + itoa(output) +
			`,"eval_duration":1000000000}`
		wantBody(t, body, `{"model":"tiny/llama:1","created_at":"T","message":{"role":"assistant","content":"Hello you"},`+
			`"done":true,"done_reason":"stop",`+counts)
		if p := request.Sampling; p.Temperature != 0 || p.Seed != 7 || p.TopK != 5 || p.TopP != 0.9 ||
			request.MaxTokens != 20 {
			t.Errorf("the worker was asked %+v, %d tokens", p, request.MaxTokens)
		}
		response, body := s.do("POST", "/api/chat", ollamaURL+ollamaHi+`}`)
		if kind := response.Header.Get("Content-Type"); kind != "application/x-ndjson" {
			t.Errorf("a stream is %s", kind)
		}
		lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
		var text strings.Builder
		for i, line := range lines {
			var l ollama.Line
			if err := json.Unmarshal([]byte(line), &l); err != nil || l.Done != (i == len(lines)-1) ||
				l.Message.Role != "assistant" {
				t.Fatalf("%s: %v", line, err)
			}
			text.WriteString(l.Message.Content)
		}
		if text.String() != "Hello you" || !strings.Contains(lines[len(lines)-1], `"done":true,"done_reason":"stop",`) ||
			!strings.HasSuffix(lines[len(lines)-1], counts[strings.Index(counts, `"prompt_eval_count"`):]) {
			t.Errorf("got %s", body)
		}
		if s.wantMetric(`parley_http_requests_total{code="200",route="/api/chat"}`, "2"); len(w.asked) != 2 {
			t.Errorf("asked %d times", len(w.asked))
		}
	})
}

func TestOllamaTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := "I look." + weatherCall + "\n" + weatherCall + "<|im_end|>"
		s := start(t, &worker{script: speak(t, said, time.Second)}, roomy)
		first := `{"id":"CALL","function":{"index":0,"name":"weather","arguments":{"city": "Rom"}}}`
		second := strings.Replace(first, `"index":0`, `"index":1`, 1)
		compact := func(text string) string { return strings.ReplaceAll(text, `": "`, `":"`) }
		_, body := s.ollama("chat", ollamaHi+weatherTool+`,"stream":false`)
		if !strings.Contains(compact(body), compact(`"content":"I look.","tool_calls":[`+first+`,`+second+`]},"done":true,`+
			`"done_reason":"stop"`)) {
			t.Errorf("got %s", body)
		}
		_, body = s.ollama("chat", ollamaHi+weatherTool)
		for _, call := range []string{first, second} {
			if !strings.Contains(compact(body), compact(`"content":"","tool_calls":[`+call+`]},"done":false}`)) {
				t.Errorf("there is no line with %s alone: %s", call, body)
			}
		}
		status, body := s.ollama("chat", `,"stream":false,"messages":[{"role":"user","content":"Weather?"},`+
			`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"weather","arguments":{"city":"Rom"}}}]},`+
			`{"role":"tool","tool_name":"weather","content":"sunny"}]`+weatherTool)
		if status != 200 {
			t.Errorf("%d %s", status, body)
		}
	})
}

func TestOllamaThoughts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "<think>Let me see.</think>\n\nYes.<|im_end|>", time.Second)})
		if status, body := s.ollama("chat", ollamaHi+`,"think":true`); status != 400 ||
			body != `{"error":"\"tiny/llama:1\" does not support thinking: leave out 'think'."}`+"\n" {
			t.Errorf("%d %s", status, body)
		}
		s.gateway.models.All()[0].Tools.Thoughts = dialect.Thinking[0]
		_, body := s.ollama("chat", ollamaHi+`,"think":true,"stream":false`)
		if !strings.Contains(body, `"message":{"role":"assistant","content":"Yes.","thinking":"Let me see."}`) {
			t.Errorf("got %s", body)
		}
		_, body = s.ollama("generate", `,"prompt":"Hi","stream":false`)
		if !strings.Contains(body, `"response":"Yes.","thinking":"Let me see."`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestOllamaGenerate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello<|im_end|>", 0)}
		s := start(t, w)
		ask := func(extra string) (prompt, body string) {
			t.Helper()
			w.asked = nil
			status, body := s.ollama("generate", extra+`,"stream":false`)
			if status != 200 {
				t.Fatalf("%s: %d %s", extra, status, body)
			}
			return tinyTokenizer().Decode(w.request(t).Prompt, false), body
		}
		plain, body := ask(`,"prompt":"Hi","system":"Be short."`)
		if !strings.Contains(plain, "Be short.") || !strings.Contains(plain, "assistant") {
			t.Errorf("the prompt is %q", plain)
		}
		var first ollama.Line
		if err := json.Unmarshal([]byte(body), &first); err != nil || *first.Response != "Hello" ||
			len(first.Context) == 0 {
			t.Fatalf("%s: %v", body, err)
		}
		context, _ := json.Marshal(first.Context)
		if next, _ := ask(`,"prompt":"And?","context":` + string(context)); !strings.HasPrefix(next, plain+"Hello") ||
			!strings.Contains(next, "And?") {
			t.Errorf("after %q the prompt is %q", plain, next)
		}
		raw, body := ask(`,"prompt":"Once upon","raw":true,"options":{"num_predict":3}`)
		if strings.Contains(raw, "assistant") || !strings.HasSuffix(raw, "Once upon") ||
			strings.Contains(body, "context") {
			t.Errorf("the raw prompt is %q: %s", raw, body)
		}
		if w.asked[0].MaxTokens != 3 {
			t.Errorf("%d tokens may be written", w.asked[0].MaxTokens)
		}
		ask(`,"prompt":"Once upon","raw":true,"format":{"type":"object"}`)
		if w.asked[0].Grammar == nil || w.asked[0].MaxTokens < 50 {
			t.Errorf("asked %+v", w.asked[0])
		}
		if gap, _ := ask(`,"prompt":"a","suffix":"c"`); !strings.Contains(gap, "suffix") ||
			strings.Contains(gap, "assistant") {
			t.Errorf("the prompt of a gap is %q", gap)
		}
	})
}

// A titled worker counts what is asked of its memory.
type titledWorker struct {
	*worker
	loads, unloads int
	kept           time.Duration
}

func (w *titledWorker) Load(context.Context) error { w.loads++; return nil }
func (w *titledWorker) Unload()                    { w.unloads++ }
func (w *titledWorker) KeepAlive(d time.Duration)  { w.kept = d }
func (w *titledWorker) Residence() (int64, time.Time, bool) {
	return 1234, time.Unix(1e9, 0), w.loads > w.unloads
}

func TestOllamaLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &titledWorker{worker: &worker{script: speak(t, "Hello<|im_end|>", 0)}}
		s := start(t, w)
		listed := func() string {
			_, body := s.do("GET", "/api/ps", "")
			return body
		}
		if got := listed(); got != `{"models":[]}`+"\n" {
			t.Errorf("before: %s", got)
		}
		_, body := s.ollama("generate", `,"keep_alive":"10m"`)
		wantBody(t, body, `{"model":"tiny/llama:1","created_at":"T","response":"","done":true,"done_reason":"load"}`)
		if got := listed(); w.loads != 1 || w.kept != 10*time.Minute ||
			!strings.Contains(got, `"size":1234,`) || !strings.Contains(got, `"expires_at":"2001-09-09T01:46:40Z"`) {
			t.Errorf("%d loads, kept for %v, listed as %s", w.loads, w.kept, got)
		}
		s.ollama("chat", ollamaHi+`,"keep_alive":-1`)
		if synctest.Wait(); w.kept != -time.Second {
			t.Errorf("kept for %v", w.kept)
		}
		_, body = s.ollama("chat", `,"messages":[],"keep_alive":0`)
		if !strings.Contains(body, `"done_reason":"unload"`) || w.unloads != 1 {
			t.Errorf("%d unloads: %s", w.unloads, body)
		}
	})
}

// Who may use a model may not decide that it leaves memory: that is for operators.
func TestOllamaUnloadingNeedsTheAdminRight(t *testing.T) {
	w := &titledWorker{worker: &worker{script: speak(t, "Hello<|im_end|>", 0)}}
	s, rig := startGuarded(t, w, newStoreName(t))
	user, _ := rig.key(tenant.NewKey{Organization: "acme", Name: "ann", Tier: new(parley.Pro)})
	response, body := s.do("POST", "/api/chat", ollamaURL+`,"keep_alive":0}`, "Authorization", "Bearer "+user)
	if response.StatusCode != http.StatusForbidden || w.unloads != 0 ||
		!strings.HasPrefix(body, `{"error":"Unloading a model needs a key`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	response, body = s.do("POST", "/api/chat", ollamaURL+ollamaHi+`,"keep_alive":-1,"stream":false}`,
		"Authorization", "Bearer "+user)
	if response.StatusCode != http.StatusOK || w.kept != 0 {
		t.Errorf("%d %s, kept for %v", response.StatusCode, body, w.kept)
	}
	for _, path := range []string{"/api/pull", "/api/copy"} {
		if response, body := s.do("POST", path, `{}`, "Authorization", "Bearer "+user); response.StatusCode != 403 {
			t.Errorf("%s: %d %s", path, response.StatusCode, body)
		}
	}
	if response, body := s.do("POST", "/api/chat", ollamaURL+ollamaHi+`}`); response.StatusCode != 401 ||
		!strings.HasPrefix(body, `{"error":"You didn't provide an API key.`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

func TestOllamaModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{}, func(c *Config) {
			c.Models[0].About = models.About{
				Format:       "gguf",
				Family:       "llama",
				Quantization: "Q8_0",
				Parameters:   8e9,
				Bytes:        5,
			}
			c.Models[0].Created = time.Unix(1e9, 0)
		})
		details := `"details":{"parent_model":"","format":"gguf","family":"llama","families":["llama"],"parameter_size":"8.0B",` +
			`"quantization_level":"Q8_0"}`
		_, body := s.do("GET", "/api/tags", "")
		if !strings.HasPrefix(body, `{"models":[{"name":"tiny/llama:1","model":"tiny/llama:1","modified_at":`+
			`"2001-09-09T01:46:40Z","size":5,"digest":"`) || !strings.Contains(body, details) {
			t.Errorf("got %s", body)
		}
		status, body := s.ollama("show", "")
		if status != 200 || !strings.Contains(body, details) || !strings.Contains(body, `"llama.context_length":100`) ||
			!strings.Contains(body, `"capabilities":["completion","tools","insert"]`) ||
			!strings.Contains(body, `"template":"`) {
			t.Errorf("%d %s", status, body)
		}
		if _, body := s.do("GET", "/api/version", ""); body != `{"version":"0.12.11"}`+"\n" {
			t.Errorf("got %s", body)
		}
		for _, c := range []struct{ method, path, body, want string }{
			{"POST", "/api/show", `{"model":"nope"}`, "The model `nope` does not exist or you do not have access to it."},
			{"POST", "/api/chat", `{"model":"nope"` + ollamaHi + `}`,
				"The model `nope` does not exist or you do not have access to it."},
			{"POST", "/api/pull", `{"model":"x"}`,
				"This server has no model folder: it serves what --model or its workers name."},
			{"POST", "/api/push", `{}`, "Unknown request URL: POST /api/push. See GET / for the ones there are."},
		} {
			response, body := s.do(c.method, c.path, c.body)
			want, _ := json.Marshal(ollama.ErrorBody{Error: c.want})
			if response.StatusCode != 404 || body != string(want)+"\n" {
				t.Errorf("%s %s: %d %s", c.method, c.path, response.StatusCode, body)
			}
		}
	})
}

func TestOllamaEmbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &embedder{}, func(c *Config) { c.Models[0].ContextTokens = 40 })
		_, body := s.ollama("embed", `,"input":["a","b"],"dimensions":2`)
		prompts := len(tokensOf(t, "a")) + len(tokensOf(t, "b"))
		var got ollama.Embeddings
		if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Embeddings) != 2 || got.Model != modelID ||
			got.PromptEvalCount < prompts || got.TotalDuration == 0 {
			t.Errorf("%s: %v", body, err)
		}
		if _, body := s.ollama("embeddings", `,"prompt":"a"`); !strings.HasPrefix(body, `{"embedding":[0.`) {
			t.Errorf("got %s", body)
		}
		long := strings.Repeat("word ", 300)
		if status, body := s.ollama("embed", `,"input":"`+long+`"`); status != 200 ||
			!strings.Contains(body, `"prompt_eval_count":39`) {
			t.Errorf("a long text is not cut: %d %s", status, body)
		}
		if status, body := s.ollama("embed", `,"input":"`+long+`","truncate":false`); status != 400 ||
			!strings.HasPrefix(body, `{"error":"This model's maximum context length is 40 tokens.`) {
			t.Errorf("a long text is not refused: %d %s", status, body)
		}
		if _, body := s.ollama("embed", ""); !strings.Contains(body, `"embeddings":[]`) {
			t.Errorf("no input gives %s", body)
		}
	})
}

// TestOllamaFailures has an answer fail before its first line, and after it.
func TestOllamaFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			said := speech(t, r, time.Second, "one two three")
			return append(said[:2:2], say{err: parley.Errorf(parley.Unavailable, "The worker is gone.")})
		}}
		s := start(t, w)
		status, body := s.ollama("chat", ollamaHi)
		lines := strings.Split(strings.TrimSpace(body), "\n")
		if last := lines[len(lines)-1]; status != 200 || len(lines) < 2 || last != `{"error":"The worker is gone."}` {
			t.Errorf("%d %s", status, body)
		}
		w.script = func(*parley.Request) []say { return []say{{err: parley.Errorf(parley.Unavailable, "Gone.")}} }
		if status, body := s.ollama("chat", ollamaHi); status != 503 || body != `{"error":"Gone."}`+"\n" {
			t.Errorf("%d %s", status, body)
		}
		s.limited(limit.Limits{RequestsPerMinute: 1})
		w.script = speak(t, "Hello", 0)
		s.ollama("chat", ollamaHi)
		response, body := s.do("POST", "/api/chat", ollamaURL+ollamaHi+`}`)
		if response.StatusCode != 429 || response.Header.Get("Retry-After") == "" ||
			!strings.HasPrefix(body, `{"error":"Rate limit of `) {
			t.Errorf("%d %s", response.StatusCode, body)
		}
	})
}

func TestOllamaHangUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four five six seven", time.Second)}
		s := start(t, w)
		ctx, cancel := context.WithCancel(t.Context())
		response := s.open(ctx, "POST", "/api/generate", ollamaURL+`,"prompt":"Hi"}`)
		if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil ||
			!strings.Contains(line, "response") {
			t.Fatalf("%q, %v", line, err)
		}
		before := time.Now()
		cancel()
		if s.settled(w); time.Since(before) != 0 {
			t.Errorf("the worker let go after %v", time.Since(before))
		}
		s.wantMetric(`parley_http_requests_total{code="499",route="/api/generate"}`, "1")
	})
}

// A client that waits is sent spaces, which JSON allows before an object.
func TestOllamaKeepsSilentStreamsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "late", time.Minute)})
		_, body := s.ollama("chat", ollamaHi)
		first, _, _ := strings.Cut(body, "\n")
		var l ollama.Line
		if err := json.Unmarshal([]byte(first), &l); err != nil || !strings.HasPrefix(first, " ") {
			t.Errorf("%q: %v", first, err)
		}
	})
}
