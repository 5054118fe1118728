package host

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
	"parley/worker"
	"parley/worker/workertest"
)

// startLlama starts llama-server with polly-mini, which PARLEY_LLAMA_SERVER
// names.
func startLlama(t *testing.T) string {
	t.Helper()
	program := os.Getenv("PARLEY_LLAMA_SERVER")
	if program == "" {
		t.Skip(
			"NOT RUN: a foreign real engine. Build llama-server (github.com/ggml-org/llama.cpp) and name it in " +
				"PARLEY_LLAMA_SERVER")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(program, "-m", testkit.Root()+"/internal/builtin/polly-mini.gguf", "--host", "127.0.0.1",
		"--port", port,
		"--metrics", "-c", "4096", "-np", "4", "--no-kv-unified", "-t", "2", "--no-warmup", "--alias", "polly-mini")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return "http://127.0.0.1:" + port
}

// TestLlamaServerConforms puts a foreign engine to the test that ours passes, as
// far as it promises.
func TestLlamaServerConforms(t *testing.T) {
	url := startLlama(t)
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", KVTokens: 2048, ContextTokens: 1024})
	r := dialWorker(t, worker.Config{URL: url, Kind: worker.LlamaCpp})
	status := worker.Status{}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		var err error
		if status, err = r.Probe(t.Context()); err == nil {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
	t.Logf("%+v", status)
	if len(status.Models) != 1 || status.Models[0].ID != "polly-mini" || status.Models[0].ContextTokens != 1024 {
		t.Fatalf("%+v", status)
	}
	text := func(ids []parley.Token) string { return h.Tokenizer.Decode(ids, true) }
	workertest.Conform(t, &workertest.Subject{
		Worker: r, Model: "polly-mini", Prompt: chatPrompt(t, h, longQuestion), Vocab: h.Tokenizer.Size(),
		Context: 1024, Text: text,
		NoRegex: true,
		Running: func(t *testing.T) int {
			s, err := r.Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Running
		},
	})
	q := &parley.Request{Prompt: chatPrompt(t, h, "What is the capital of France?"), MaxTokens: 40}
	theirs, _ := workertest.Ask(t, r, q)
	ours, _ := workertest.Ask(t, h, q)
	if a, b := text(theirs[0].Tokens), text(ours[0].Tokens); !strings.Contains(a, "Paris") ||
		!strings.Contains(b, "Paris") {
		t.Errorf("llama-server says %q, we say %q", a, b)
	}
	schema := parley.JSONSchema(
		[]byte(
			`{"type":"object","properties":{"city":{"type":"string","enum":["Paris","Rome"]}},"required":["city"],"additionalProperties":false}`), false)
	q.Grammar = &schema
	held, _ := workertest.Ask(t, r, q)
	if s := text(held[0].Tokens); held[0].Finish == parley.FinishStop &&
		!strings.Contains(strings.ReplaceAll(s, " ", ""), `{"city":"`) {
		t.Errorf("held to a schema it says %q", s)
	}
}
