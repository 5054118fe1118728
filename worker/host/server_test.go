package host

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/internal/builtin"
	"parley/model/weights"
	"parley/route/kvindex"
	"parley/worker"
	"parley/worker/kvwire"
	"parley/worker/workertest"
)

// testDevice is what workers of tests compute on.
var testDevice = cmp.Or(os.Getenv("PARLEY_TEST_DEVICE"), DeviceCPU)

// testThreads is with how many threads models compute where a test does not say more. Threads that wait for each other
// take processor time.
const testThreads = 1

// startWorker serves polly-mini on a real socket.
func startWorker(t *testing.T, cfg ServerConfig, model Config) (*Server, string) {
	t.Helper()
	model.Threads = cmp.Or(model.Threads, testThreads)
	if cfg.Fetch.Streams == 0 { // as workers on other hosts do with larger models
		cfg.Fetch.Streams, cfg.Fetch.StreamFrom = kvwire.StreamsMax, 1
	}
	return startWorkerOf(t, cfg, model, openMini)
}

func openMini() (*weights.Checkpoint, error) {
	m, _ := builtin.Find("polly-mini")
	return m.Open()
}

// startWorkerOf serves a model under the name polly-mini.
func startWorkerOf(t *testing.T, cfg ServerConfig, model Config, open func() (*weights.Checkpoint, error)) (*Server,
	string) {
	t.Helper()
	model.Name = "polly-mini"
	model.DeviceName = cmp.Or(model.DeviceName, testDevice)
	cfg.Fetch.ShareFrom = cmp.Or(cfg.Fetch.ShareFrom, 1) // as workers on one host do with larger models
	cfg.Open = func() (Candidate, error) {
		ck, err := open()
		if err == nil { // it computes longer contexts than it was trained for all the same
			ck.Config.Context = max(ck.Config.Context, model.ContextTokens)
		}
		return Candidate{Checkpoint: ck, Config: model}, err
	}
	s, err := NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := s.NewHTTPServer()
	var work sync.WaitGroup
	work.Go(func() { _ = front.Serve(l) })
	t.Cleanup(func() {
		front.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		work.Wait()
	})
	return s, "http://" + l.Addr().String()
}

func dialWorker(t *testing.T, cfg worker.Config) *worker.Remote {
	t.Helper()
	r, err := worker.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

const longQuestion = "Please tell me a long story about a parrot who learns to read and then teaches all the other " +
	"birds in the wood how it is done."

// TestWorkersConform puts the engine in this process, behind our own wire, and
// behind the routes of a vLLM server to the same test.
func TestWorkersConform(t *testing.T) {
	reference := startHost(t, openBuiltin(t, "polly-mini"),
		Config{Name: "polly-mini", KVTokens: 8192, ContextTokens: 1024})
	s, url := startWorker(t, ServerConfig{Events: "127.0.0.1:0", Replay: "127.0.0.1:0"},
		Config{KVTokens: 8192, ContextTokens: 1024})
	subject := workertest.Subject{
		Model: "polly-mini", Prompt: chatPrompt(t, reference, longQuestion), Vocab: reference.Tokenizer.Size(),
		Context: 1024,
		Text:    func(ids []parley.Token) string { return reference.Tokenizer.Decode(ids, true) },
	}
	running := func(t *testing.T) int { return s.about().Running + s.about().Waiting }
	t.Run("in this process", func(t *testing.T) {
		own := subject
		own.Worker = reference
		workertest.Conform(t, &own)
	})
	t.Run("parley", func(t *testing.T) {
		own := subject
		own.Worker, own.Reference, own.Running = dialWorker(t,
			worker.Config{URL: url, Kind: worker.Parley}), reference, running
		workertest.Conform(t, &own)
	})
	t.Run("vllm", func(t *testing.T) {
		own := subject
		own.Worker, own.Reference, own.Running = dialWorker(t,
			worker.Config{URL: url, Kind: worker.VLLM}), reference, running
		workertest.Conform(t, &own)
	})
}

// TestEventsMirrorTheCache follows a worker's events while it answers, and
// compares the index with what the worker holds.
func TestEventsMirrorTheCache(t *testing.T) {
	s, url := startWorker(t, ServerConfig{Events: "127.0.0.1:0", Replay: "127.0.0.1:0"},
		Config{KVTokens: 512, ContextTokens: 256})
	r := dialWorker(t, worker.Config{URL: url, Kind: worker.Parley})
	if _, err := r.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if source := r.Source(""); !source.Events || !source.Replay || !source.Snapshot || source.CapacityBlocks != 32 {
		t.Fatalf("%+v", source)
	}
	x, err := kvindex.New(kvindex.Config{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := x.Join(r.Source(""))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { _ = r.Follow(ctx, listenerOf(&mu, x, id)) })
	defer following.Wait()
	defer cancel()
	h := s.awake.Host
	var prompts [][]parley.Token
	// more than the pool holds
	for _, text := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight"} {
		prompts = append(prompts, chatPrompt(t, h, strings.Repeat(text+" ", 60)))
		workertest.Ask(t, r,
			&parley.Request{Prompt: prompts[len(prompts)-1], MaxTokens: 20, Stop: parley.Stop{IgnoreEnd: true}})
	}
	held := func() map[parley.BlockKey]bool {
		_, events, err := r.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := map[parley.BlockKey]bool{}
		for _, e := range events {
			for _, n := range e.Keys {
				names[n] = true
			}
		}
		return names
	}()
	if len(held) < 8 || len(held) > 32 {
		t.Fatalf("the worker holds %d blocks, its pool has 32", len(held))
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		mu.Lock()
		stats := x.Stats(id)
		mu.Unlock()
		if stats.State == kvindex.Exact && stats.Held == len(held) && stats.Removed > 0 {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("the index has %+v, the worker holds %d blocks", stats, len(held))
		}
	}
	last := prompts[len(prompts)-1]
	names := parley.AppendBlockKeys(nil, 0, parley.Salt{}, last, 16)
	if !held[names[0]] {
		t.Error("the beginning of the last prompt is not among what is held")
	}
}

func listenerOf(mu *sync.Mutex, x *kvindex.Index, id kvindex.Worker) worker.Listener {
	locked := func(do func() kvindex.Ask) kvindex.Ask {
		mu.Lock()
		defer mu.Unlock()
		return do()
	}
	return worker.Listener{
		Connected:   func() { locked(func() kvindex.Ask { x.Reconnected(id); return kvindex.Ask{} }) },
		Batch:       func(b kvindex.Batch) kvindex.Ask { return locked(func() kvindex.Ask { return x.Apply(id, b) }) },
		ReplayEnded: func() kvindex.Ask { return locked(func() kvindex.Ask { return x.ReplayEnded(id) }) },
		Snapshot: func(seq uint64, blocks iter.Seq[kvindex.Event]) kvindex.Ask {
			return locked(func() kvindex.Ask { return x.Restore(id, seq, blocks) })
		},
		Wants: func() kvindex.Ask { return locked(func() kvindex.Ask { return x.Wants(id) }) },
		Lost:  func(error) {},
	}
}

// call makes one HTTP request and returns status and body.
func call(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Host = req.Header.Get("Host")
	resp, err := http.DefaultClient.Do(req)
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

func TestSleepAndWake(t *testing.T) {
	s, url := startWorker(t, ServerConfig{Events: "127.0.0.1:0", Replay: "127.0.0.1:0"},
		Config{KVTokens: 1024, ContextTokens: 512})
	r := dialWorker(t, worker.Config{URL: url, Kind: worker.Parley})
	prompt := chatPrompt(t, s.awake.Host, longQuestion)
	before, _ := workertest.Ask(t, r, &parley.Request{Prompt: prompt, MaxTokens: 16})
	var cut error
	fallAsleep := sync.OnceFunc(func() { call(t, "POST", url+"/sleep?level=1", "") })
	for _, err := range r.Generate(t.Context(),
		&parley.Request{Prompt: prompt, MaxTokens: 300, Stop: parley.Stop{IgnoreEnd: true}}) {
		fallAsleep() // it can have written no more than the window
		cut = err
	}
	if parley.CodeOf(cut) != parley.Unavailable {
		t.Errorf("an answer that sleep cut ended with %v", cut)
	}
	if status, body := call(t, "GET", url+"/is_sleeping", ""); status != 200 ||
		strings.TrimSpace(body) != `{"is_sleeping":true}` {
		t.Errorf("%d %s", status, body)
	}
	if code := codeOfAnswer(t, r, prompt); code != parley.Unavailable {
		t.Errorf("a sleeping worker answers with %q", code)
	}
	if status, err := r.Probe(t.Context()); err != nil || !status.Sleeping {
		t.Errorf("%+v, %v", status, err)
	}
	if _, events, err := r.Snapshot(t.Context()); err != nil || len(events) != 0 {
		t.Errorf("a sleeping worker holds %d runs of blocks, %v", len(events), err)
	}
	if _, body := call(t, "GET", url+"/metrics", ""); !strings.Contains(body,
		`vllm:engine_sleep_state{sleep_state="discard_all"} 1`) {
		t.Error("the metrics do not say that it sleeps")
	}
	for range 2 {
		if status, body := call(t, "POST", url+"/wake_up", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}
	after, _ := workertest.Ask(t, r, &parley.Request{Prompt: prompt, MaxTokens: 16})
	if !slices.Equal(before[0].Tokens, after[0].Tokens) {
		t.Error("the answer is another one after sleep")
	}
}

func codeOfAnswer(t *testing.T, r parley.Worker, prompt []parley.Token) (code parley.Code) {
	t.Helper()
	for _, err := range r.Generate(t.Context(), &parley.Request{Prompt: prompt, MaxTokens: 1}) {
		if err != nil {
			code = parley.CodeOf(err)
		}
	}
	return code
}

// TestRoutesOfVLLM asks as a client of vLLM does.
func TestRoutesOfVLLM(t *testing.T) {
	_, url := startWorker(t, ServerConfig{Version: "9.9", Key: "sesame", Pool: "chat"},
		Config{KVTokens: 1024, ContextTokens: 512})
	key := []string{"Authorization", "Bearer sesame"}
	if status, _ := call(t, "GET", url+"/v1/models", ""); status != 401 {
		t.Errorf("without the key the models are told with %d", status)
	}
	for path, want := range map[string]string{"/health": "", "/version": `{"version":"9.9"}`} {
		if status, body := call(t, "GET", url+path, ""); status != 200 || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := call(t, "GET", url+"/v1/models", "", key...); status != 200 ||
		!strings.Contains(body, `"id":"polly-mini"`) || !strings.Contains(body, `"max_model_len":512`) {
		t.Errorf("%d %s", status, body)
	}
	var tokens struct {
		Count  int
		Tokens []parley.Token
	}
	_, body := call(t, "POST", url+"/tokenize", `{"prompt":"Hello, world!"}`, key...)
	if err := json.Unmarshal([]byte(body), &tokens); err != nil || tokens.Count != len(tokens.Tokens) ||
		tokens.Count < 2 {
		t.Errorf("%s: %v", body, err)
	}
	ids, _ := json.Marshal(tokens.Tokens)
	if _, body := call(t, "POST", url+"/detokenize", `{"tokens":`+string(ids)+`}`, key...); !strings.Contains(body,
		"Hello, world!") {
		t.Errorf("%s came back", body)
	}
	if status, body := call(t, "POST", url+"/tokenize", `{"messages":[{"role":"user","content":"hi"}]}`,
		key...); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if _, body := call(t, "GET", url+"/metrics", ""); !strings.Contains(body, "vllm:num_requests_running") ||
		!strings.Contains(body, `vllm:cache_config_info{block_size="16",num_gpu_blocks="64"} 1`) {
		t.Error("the metrics lack vLLM's names")
	}
	checkBadBodies(t, url, key)
	checkCompletions(t, url, key)
}

func checkBadBodies(t *testing.T, url string, key []string) {
	t.Helper()
	for body, want := range map[string]string{
		`{`:                                      "not valid JSON",
		`{"prompt":{}}`:                          "the prompt must be",
		`{"prompt":"x","n":0}`:                   "n is 0",
		`{"prompt":"x","max_tokens":0}`:          "max_tokens is 0",
		`{"prompt":"x","stop":[""]}`:             "stop string is empty",
		`{"prompt":"x","cache_salt":""}`:         "the salt is empty",
		`{"prompt":"x","logprobs":99}`:           "logprobs is 99",
		`{"prompt":"x","echo":true}`:             "echo",
		`{"prompt":[99999999]}`:                  "this model has tokens",
		`{"prompt":"x","temperature":-1}`:        "temperature",
		`{"prompt":"x","logit_bias":{"many":1}}`: "not a token id",
	} {
		status, text := call(t, "POST", url+"/v1/completions", body, key...)
		if status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

func checkCompletions(t *testing.T, url string, key []string) {
	t.Helper()
	const ask = `"prompt":"Once upon a time","max_tokens":20,"temperature":0,"n":2,"logprobs":2,"return_token_ids":true,"stop":["zzz"],"model":"polly-mini"`
	type choice struct {
		Index        int
		Text         string
		TokenIDs     []parley.Token `json:"token_ids"`
		FinishReason string         `json:"finish_reason"`
		Logprobs     struct {
			Tokens        []string
			TokenLogprobs []float32 `json:"token_logprobs"`
		}
	}
	var whole struct {
		Choices []choice
		Usage   struct {
			CompletionTokens int `json:"completion_tokens"`
		}
	}
	_, body := call(t, "POST", url+"/v1/completions", "{"+ask+"}", key...)
	if err := json.Unmarshal([]byte(body), &whole); err != nil || len(whole.Choices) != 2 ||
		whole.Usage.CompletionTokens != len(whole.Choices[0].TokenIDs)+len(whole.Choices[1].TokenIDs) {
		t.Fatalf("%s: %v", body, err)
	}
	if c := whole.Choices[1]; c.Text == "" || len(c.Logprobs.Tokens) != len(c.TokenIDs) ||
		c.Text != whole.Choices[0].Text {
		t.Errorf("%+v", c)
	}
	_, stream := call(t, "POST", url+"/v1/completions",
		`{"stream":true,"stream_options":{"include_usage":true},`+ask+"}", key...)
	texts, ids := make([]string, 2), make([][]parley.Token, 2)
	usage, done := false, false
	for lines := bufio.NewScanner(strings.NewReader(stream)); lines.Scan(); {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		if done = string(data) == "[DONE]"; done {
			break
		}
		var chunk struct {
			Choices []choice
			Usage   any
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			t.Fatal(err)
		}
		usage = chunk.Usage != nil
		for _, c := range chunk.Choices {
			texts[c.Index] += c.Text
			ids[c.Index] = append(ids[c.Index], c.TokenIDs...)
		}
	}
	if !usage || !done || texts[0] != whole.Choices[0].Text || !slices.Equal(ids[1], whole.Choices[1].TokenIDs) {
		t.Errorf("streamed %q %v, usage %t, done %t; whole it is %+v", texts, ids, usage, done, whole)
	}
	word := strings.Fields(whole.Choices[0].Text)[2]
	_, body = call(t, "POST", url+"/v1/completions", strings.Replace("{"+ask+"}", "zzz", word, 1), key...)
	if err := json.Unmarshal([]byte(body), &whole); err != nil || strings.Contains(whole.Choices[0].Text, word) ||
		whole.Choices[0].FinishReason != "stop" {
		t.Errorf("stopped at %q: %s", word, body)
	}
	status, body := call(t, "POST", url+"/v1/chat/completions",
		`{"messages":[{"role":"user","content":"What is the capital of France?"}],"temperature":0,"structured_outputs":{"choice":["Paris","Rome"]}}`, key...)
	if status != 200 || !strings.Contains(body, `"content":"Paris"`) && !strings.Contains(body, `"content":"Rome"`) {
		t.Errorf("%d %s", status, body)
	}
}
