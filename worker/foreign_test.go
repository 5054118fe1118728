package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"parley"
	"parley/worker/foreign"

	diff "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// spell is a tokenizer of sorts.
func spell(_ string, tokens []parley.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		fmt.Fprintf(&b, "<%d>", t)
	}
	return b.String()
}

// TestSessions plays what engines were documented to send, byte for byte, and
// compares what they were asked and what comes out.
func TestSessions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playSession(t, file) })
	}
}

// madeID is the id of a call that its engine gave none.
var madeID = regexp.MustCompile(`"id":"call_[0-9a-f]{24}"`)

func playSession(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	part := map[string]string{}
	for _, f := range archive.Files {
		part[f.Name] = string(f.Data)
	}
	var q parley.Request
	if err := json.Unmarshal([]byte(part["ask"]), &q); err != nil {
		t.Fatal(err)
	}
	if part["asked"] != "" {
		q.Terms = new(parley.Terms)
		if err := json.Unmarshal([]byte(part["asked"]), q.Terms); err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != strings.TrimSpace(part["path"]) || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s was asked with %q", r.URL.Path, r.Header)
		}
		if want := part["body"]; want != "" && diff.Diff(plain(t, want), plain(t, string(body))) != "" {
			t.Errorf("asked was (-want +got)\n%s", diff.Diff(plain(t, want), plain(t, string(body))))
		}
		status, _ := strconv.Atoi(strings.TrimSpace(part["status"]))
		w.WriteHeader(cmp.Or(status, http.StatusOK))
		_, _ = io.WriteString(w, part["answer"])
	}))
	defer s.Close()
	r := dial(t, Config{URL: s.URL, Kind: Kind(strings.TrimSpace(part["kind"])), Model: "m", Key: "k", Text: spell})
	var got bytes.Buffer
	for d, err := range r.Generate(t.Context(), &q) {
		if err != nil {
			fmt.Fprintf(&got, "error %s\n", parley.CodeOf(err))
			continue
		}
		u := d.Usage
		d.Usage = nil
		line, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n", madeID.ReplaceAll(line, []byte(`"id":"ID"`)))
		if u != nil {
			fmt.Fprintf(&got, "usage %d %d %d\n", u.PromptTokens, u.CachedTokens, u.OutputTokens)
		}
	}
	want := strings.ReplaceAll(part["deltas"], `"Top":null`, "")
	if got.String() != want {
		t.Errorf("(-want +got)\n%s", diff.Diff(want, got.String()))
	}
}

// plain reads JSON without regard to the order of keys.
func plain(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestWhatIsNotPromisedIsRefused asks each kind for what it cannot do.
func TestWhatIsNotPromisedIsRefused(t *testing.T) {
	regex := parley.Regex("a")
	tools := parley.FreeText(parley.GrammarTrigger{Text: "<", Then: parley.JSONObject()})
	asks := func(strict, required bool) parley.Request {
		return parley.Request{Grammar: &tools, Terms: &parley.Terms{CallRequired: required,
			Tools: []parley.ToolFunction{{Name: "a", Strict: strict, Parameters: json.RawMessage(`{"type":"object"}`)}}}}
	}
	foreign := func(k Kind) bool { return PromisesOf(k).Grammar == HoldGBNF || k.TakesTurns() }
	for _, kind := range Kinds() {
		if kind == Parley {
			continue
		}
		p := PromisesOf(kind)
		r := dial(t, Config{URL: "http://127.0.0.1:1", Kind: kind, Text: spell})
		for name, c := range map[string]struct {
			q       parley.Request
			refused bool
		}{
			"embeddings":   {parley.Request{Embed: true}, !p.Embed},
			"prompts":      {parley.Request{PromptLogprobs: true}, !p.PromptLogprobs},
			"finish":       {parley.Request{FinishGrammar: true}, true},
			"logprobs":     {parley.Request{Logprobs: true}, !p.Logprobs},
			"choices":      {parley.Request{Choices: 2}, !p.Choices},
			"regex":        {parley.Request{Grammar: &regex}, p.Grammar != HoldGBNF},
			"tools":        {asks(false, false), false},
			"strict tools": {asks(true, false), !foreign(kind)},
			"a call":       {asks(false, true), !foreign(kind) && kind != Ollama},
			"stop tokens":  {parley.Request{Stop: parley.Stop{Tokens: []parley.Token{1}}}, !p.TokenIDs},
			"plain answer": {parley.Request{}, false},
		} {
			c.q.Prompt, c.q.Turns = []parley.Token{1}, []parley.Turn{{Role: "user", Text: "a"}}
			var code parley.Code
			for _, err := range r.Generate(t.Context(), &c.q) {
				code = parley.CodeOf(err)
			}
			want := parley.Unavailable // nobody is there
			if c.refused {
				want = parley.InvalidRequest
			}
			if code != want {
				t.Errorf("%s, %s: %q, want %q", kind, name, code, want)
			}
		}
	}
}

func TestTextIsNeededWhereIdsAreNotTaken(t *testing.T) {
	for _, kind := range Kinds() {
		if _, err := Dial(Config{URL: "http://x:1", Kind: kind}); (err == nil) != (PromisesOf(kind).TokenPrompts ||
			kind.TakesTurns()) {
			t.Errorf("%s without a tokenizer: %v", kind, err)
		}
	}
	for _, bad := range []Config{{URL: "x", Kind: VLLM}, {URL: "http://x", Kind: "other"},
		{URL: "http://x", Kind: VLLM, Window: -1}} {
		if _, err := Dial(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// TestProbes reads the health of each kind from what it was documented to say.
func TestProbes(t *testing.T) {
	for kind, c := range map[Kind]struct {
		routes map[string]string
		want   Status
	}{
		VLLM: {map[string]string{
			"/health": "", "/version": `{"version":"0.27.1"}`, "/is_sleeping": `{"is_sleeping":true}`,
			"/v1/models": `{"object":"list","data":[{"id":"m","object":"model","max_model_len":4096}]}`,
			"/metrics": "# HELP x y\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} " +
				"3.0\nvllm:num_requests_running{engine=\"1\",model_name=\"m\"} 1.0\n" +
				"vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} " +
				"2.0\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n" +
				"vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"1000\"} 1.0\nvllm:bad{ " +
				"1\nnonsense\n",
		}, Status{Version: "0.27.1", Models: []parley.Model{{ID: "m", ContextTokens: 4096}}, Running: 4, Waiting: 2,
			KVUse: 0.25, CapacityBlocks: 1000, BlockTokens: 16, Sleeping: true}},
		SGLang: {map[string]string{
			"/health": "", "/v1/models": `{"data":[{"id":"m","max_model_len":8192}]}`,
			"/metrics": "sglang:num_running_reqs{model_name=\"m\"} 5\nsglang:num_queue_reqs{model_name=\"m\"} " +
				"1\nsglang:token_usage{model_name=\"m\"} 0.5\nsglang:page_size 16\nsglang:num_pages 77\n",
		}, Status{Models: []parley.Model{{ID: "m", ContextTokens: 8192}}, Running: 5, Waiting: 1, KVUse: 0.5,
			CapacityBlocks: 77, BlockTokens: 16}},
		LlamaCpp: {map[string]string{
			"/health":    `{"status":"ok"}`,
			"/props":     `{"default_generation_settings":{"n_ctx":2048},"build_info":"b6500"}`,
			"/v1/models": `{"data":[{"id":"m"}]}`,
			"/metrics":   "llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\n",
		}, Status{Version: "b6500", Models: []parley.Model{{ID: "m", ContextTokens: 2048}}, Running: 1, Waiting: 4}},
		Ollama: {map[string]string{
			"/api/version": `{"version":"0.12.0"}`,
			"/api/tags":    `{"models":[{"name":"llama3:latest"},{"name":"qwen:7b"}]}`,
		}, Status{Version: "0.12.0",
			Models: []parley.Model{{ID: "llama3", ContextTokens: 99}, {ID: "qwen:7b", ContextTokens: 99}}}},
		OpenAI: {map[string]string{"/v1/models": `{"data":[{"id":"gpt"}]}`},
			Status{Models: []parley.Model{{ID: "gpt", ContextTokens: 99}}}},
		Parley: {map[string]string{
			AboutPath: `{"version":"1","instance":"i","pool":"chat","models":[{"ID":"m","ContextTokens":512}],"running":1,"waiting":2,"kv_use":0.5,"blocks":64,"block_tokens":16,"draining":true}`,
		}, Status{Version: "1", Instance: "i", Pool: "chat", Models: []parley.Model{{ID: "m", ContextTokens: 512}},
			Running: 1, Waiting: 2, KVUse: 0.5, CapacityBlocks: 64, BlockTokens: 16, Draining: true}},
	} {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, ok := c.routes[r.URL.Path]
			if !ok {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, text)
		})
		s := httptest.NewUnstartedServer(h)
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(true)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
		r := dial(t, Config{URL: s.URL, Kind: kind, Text: spell, ContextTokens: 99})
		got, err := r.Probe(t.Context())
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		} else if d := diff.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", kind, d)
		}
		if len(r.Models()) == 0 {
			t.Errorf("%s: the models are forgotten", kind)
		}
		r.Close()
		s.Close()
		if _, err := r.Probe(t.Context()); parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("%s that is gone: %v", kind, err)
		}
	}
}

// TestOptionalRoutes: metrics that are switched off do not make an engine ill.
func TestOptionalRoutes(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
		case "/props":
			_, _ = io.WriteString(w, `{"default_generation_settings":{"n_ctx":2048}}`)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/metrics":
			w.WriteHeader(http.StatusNotImplemented)
			_, _ = io.WriteString(w,
				`{"error":{"code":501,"message":"This server does not support metrics endpoint.","type":"not_supported_error"}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	for _, kind := range []Kind{LlamaCpp, VLLM, SGLang} {
		r := dial(t, Config{URL: s.URL, Kind: kind})
		if _, err := r.Probe(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		r.Close()
	}
}

// FuzzAnswers feeds every dialect with answers from a stranger: they end with
// one error or with usage, and never otherwise.
func FuzzAnswers(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range archive.Files {
			if part.Name == "answer" {
				for k := range dialects {
					f.Add(string(k), part.Data)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind string, answer []byte) {
		speak, ok := dialects[Kind(kind)]
		if !ok {
			return
		}
		r := &Remote{cfg: Config{Kind: Kind(kind)}}
		a := foreign.NewAssembly(&parley.Request{Prompt: []parley.Token{1}, Choices: 2, Logprobs: true, TopLogprobs: 2,
			Stop: parley.Stop{Tokens: []parley.Token{3}}}, 0)
		for message, err := range speak.Messages(bytes.NewReader(answer)) {
			if err == nil {
				err = r.take(a, &speak, message)
			}
			if err != nil {
				return
			}
			for _, d := range a.Deltas() {
				if d.Choice < 0 || d.Choice > 1 || d.Usage != nil {
					t.Fatalf("%+v", d)
				}
			}
		}
		if d, complete := a.End(); complete != (d.Usage != nil) {
			t.Errorf("%+v, complete %v", d, complete)
		}
	})
}

func FuzzMetrics(f *testing.F) {
	f.Add([]byte("vllm:num_requests_running{a=\"}\"} 3\nvllm:cache_config_info{num_gpu_blocks=\"-5\"} 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s Status
		_ = readMetrics(bytes.NewReader(text), &s)
		if s.KVUse < 0 || s.BlockTokens < 0 {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"x","parley":{"code":"overloaded","message":"y"}}}`))
	f.Add([]byte(`{"detail":[{"msg":"x"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if explain(body).Message == "" && !strings.Contains(string(body), "parley") {
			t.Errorf("%s explains nothing", body)
		}
	})
}
