package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// TestServesFP8Directory serves a model that is stored with FP8 weights beside the same
// numbers as BF16: answers and log-probabilities are equal.
func TestServesFP8Directory(t *testing.T) {
	stored, widened := testkit.FP8Directories(t, "tiny-qwen3", "block")
	s := startServer(t, "--device", "cpu", "--model", "narrow="+stored, "--model",
		"plain="+testkit.FP8AsBF16(t, "tiny-qwen3", widened))
	answer := func(model string) (choices []any) {
		status, text := s.call(t, "POST", "/v1/completions", `{"model":"`+model+`","prompt":"Once upon a time",
			"max_tokens":16,"temperature":0,"logprobs":3}`)
		var body struct{ Choices []any }
		if err := json.Unmarshal([]byte(text), &body); err != nil || status != 200 || !strings.Contains(text,
			"token_logprobs") {
			t.Fatalf("%s: %d %s", model, status, text)
		}
		return body.Choices
	}
	if got, want := answer("narrow"), answer("plain"); !reflect.DeepEqual(got, want) {
		t.Errorf("FP8 weights answer %v, as BF16 %v", got, want)
	}
}

// TestShowsFP8 describes a directory with FP8 weights, and says that they were quantized already where
// they are converted.
func TestShowsFP8(t *testing.T) {
	stored, _ := testkit.FP8Directories(t, "tiny-qwen3", "channel")
	for want, args := range map[string][]string{
		"F8_E4M3":                        {"model", "inspect", stored},
		"was already quantized (F8_E4M3": {"model", "quantize", stored, filepath.Join(t.TempDir(), "q.gguf")},
	} {
		exe, err := exec.LookPath("parley")
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), exe, args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v\n%s\nwant %q", args, err, out, want)
		}
	}
}
