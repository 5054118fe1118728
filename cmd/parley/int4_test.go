package main

import (
	"encoding/json"
	"math"
	"os/exec"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// TestServesInt4Directories serves models that are stored with weights of four bits beside the same numbers as F32:
// the tokens of a text have nearly the same log-probabilities.
func TestServesInt4Directories(t *testing.T) {
	args, names := []string{"--device", "cpu"}, []string{}
	for _, layout := range []string{"gptq act-order", "compressed", "awq"} {
		stored, widened := testkit.Int4Directories(t, "tiny-qwen3", layout)
		name, _, _ := strings.Cut(layout, " ")
		args = append(args, "--model", name+"="+stored, "--model", name+"-plain="+widened)
		names = append(names, name)
	}
	s := startServer(t, args...)
	logprobs := func(model string) []float64 {
		status, text := s.call(t, "POST", "/v1/completions", `{"model":"`+model+`","prompt":"Once upon a time, there was",
			"max_tokens":0,"echo":true,"logprobs":1}`)
		var body struct {
			Choices []struct {
				Logprobs struct {
					Tokens []*float64 `json:"token_logprobs"`
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &body); err != nil || status != 200 || len(body.Choices) != 1 {
			t.Fatalf("%s: %d %s", model, status, text)
		}
		var values []float64
		for _, p := range body.Choices[0].Logprobs.Tokens[1:] {
			values = append(values, *p)
		}
		return values
	}
	for _, name := range names {
		got, want := logprobs(name), logprobs(name+"-plain")
		if len(got) < 4 || len(got) != len(want) {
			t.Fatalf("%s: %v, as F32 %v", name, got, want)
		}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 0.2 {
				t.Errorf("%s: token %d has the log-probability %v, as F32 %v", name, i+1, got[i], want[i])
			}
		}
	}
}

// TestShowsInt4 describes a directory with weights of four bits by the types that they are computed as.
func TestShowsInt4(t *testing.T) {
	for layout, want := range map[string]string{"gptq": "Q4_0", "awq": "Q8_0"} {
		stored, _ := testkit.Int4Directories(t, "tiny-qwen3", layout)
		exe, err := exec.LookPath("parley")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), exe, "model", "inspect", stored).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s\nwant %q", layout, err, out, want)
		}
	}
}
