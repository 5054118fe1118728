package testkit

import (
	"testing"

	"parley"
)

// Outputs are what a reference implementation computed for one model.
type Outputs struct {
	Prompts []PromptOutput `json:"prompts"`
}

// A PromptOutput is what a reference implementation computed for one prompt.
type PromptOutput struct {
	IDs              []parley.Token `json:"ids"`
	LastLogits       []float32      `json:"last_logits"`
	TopIDs           []parley.Token `json:"top8_ids"`
	TopLogits        []float32      `json:"top8_logits"`
	ArgmaxByPosition []parley.Token `json:"argmax_per_position"`
	PromptLogprobs   []float32      `json:"prompt_logprobs"`
	GreedyIDs        []parley.Token `json:"greedy_ids"`
	GreedyText       string         `json:"greedy_text"`
}

// ReadOutputs reads a golden.json.
func ReadOutputs(t testing.TB, path string) Outputs {
	t.Helper()
	var out Outputs
	readJSON(t, path, &out)
	if len(out.Prompts) == 0 {
		t.Fatalf("%s holds no prompts", path)
	}
	return out
}
