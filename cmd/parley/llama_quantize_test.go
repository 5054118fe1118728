package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/testkit"
)

// tieMost is how far two tokens may lie apart, in logarithms of probability, for
// two engines to choose differently: they add up in another order, and round
// activations by other blocks.
const tieMost = 0.15

// TestLlamaReadsQuantizedModels has llama-server read what parley model quantize
// writes of polly, and compares what both write greedily. Where they part, they
// do so at a tie.
func TestLlamaReadsQuantizedModels(t *testing.T) {
	for _, kind := range []string{"q8_0", "q4_0", "q4_k"} {
		t.Run(kind, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), kind+".gguf")
			if out, err := exec.CommandContext(t.Context(), "parley", "model", "quantize",
				testkit.Root()+"/internal/builtin/polly.gguf", path, "--type", kind).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			theirs := startLlamaWith(t, "-m", path, "-c", "1024", "-np", "1", "-t", "2", "-ctk", "f32", "-ctv", "f32",
				"-fa", "off")
			for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				if resp, err := http.Get(theirs + "/health"); err == nil && resp.Body.Close() == nil &&
					resp.StatusCode == http.StatusOK {
					break
				} else if time.Now().After(until) {
					t.Fatalf("llama-server does not read the model: %v", err)
				}
			}
			ours := startServer(t, "--model", "polly="+path, "--kv-type", "f32", "--log-level", "error")
			same := 0
			questions := []string{"What is the capital of France?", "Who are you?", "Tell me a short story.",
				"What is two and three?", "Write a haiku about the sea."}
			for _, question := range questions {
				if agree(t, ours.url, theirs, question) {
					same++
				}
			}
			t.Logf("%d of %d texts are the same", same, len(questions))
			if same < len(questions)/2 {
				t.Error("that is too few to be ties")
			}
		})
	}
}

// agree reports whether both answer a question the same. It fails the test if they
// part at a token that was not nearly as likely.
func agree(t *testing.T, ours, theirs, question string) bool {
	t.Helper()
	body := fmt.Sprintf(
		`{"messages":[{"role":"user","content":%q}],"temperature":0,"max_tokens":60,"logprobs":true,"top_logprobs":5}`,
		question)
	var own, other greedyAnswer
	for at, c := range map[string]*greedyAnswer{ours: &own, theirs: &other} {
		status, text := post(t, at+"/v1/chat/completions", body)
		if err := json.Unmarshal([]byte(text), c); err != nil || status != http.StatusOK || len(c.Choices) != 1 {
			t.Fatalf("%d, %v: %s", status, err, text)
		}
	}
	mine, rest := own.Choices[0], other.Choices[0].Message.Content
	if mine.Message.Content == rest {
		return true
	}
	for i, chosen := range mine.Logprobs.Content {
		after, ok := strings.CutPrefix(rest, chosen.Token)
		if ok {
			rest = after
			continue
		}
		next := math.Inf(-1)
		for _, top := range chosen.Top {
			if top.Token != chosen.Token && strings.HasPrefix(rest, top.Token) {
				next = max(next, top.Logprob)
			}
		}
		t.Logf("%q: after %d tokens %q (%.4f), llama.cpp goes on with %.20q (%.4f)", question, i, chosen.Token,
			chosen.Logprob, rest, next)
		if chosen.Logprob-next > tieMost {
			t.Errorf("%q: that is no tie", question)
		}
		return false
	}
	t.Errorf("%q: %q, and llama.cpp writes %q", question, mine.Message.Content, other.Choices[0].Message.Content)
	return false
}

// A greedyAnswer is what a chat answers, with how likely it was.
type greedyAnswer struct {
	Choices []struct {
		Message  struct{ Content string }
		Logprobs struct {
			Content []struct {
				likely
				Top []likely `json:"top_logprobs"`
			}
		}
	}
}

type likely struct {
	Token   string
	Logprob float64
}
