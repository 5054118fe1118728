package engine

import (
	"errors"
	"testing"

	"parley"
	"parley/compute"
	"parley/engine/sched"
)

// TestEmbeddingIsTheMean embeds prompts in whole and in chunks, with and
// without a cached beginning: the counter's hidden state is the token itself
// and its position.
func TestEmbeddingIsTheMean(t *testing.T) {
	for _, stepTokens := range []int{7, 500} {
		n := &counter{width: 2}
		e := newCounter(t, n, sched.Config{Blocks: 60, StepTokens: stepTokens, StepOutputs: 7, Seqs: 4})
		for range 2 {
			prompt := long(3, 100)
			var want [2]float64
			for pos, tok := range prompt {
				want[0] += float64(tok) / 100
				want[1] += float64(pos) / 100
			}
			var got parley.Delta
			for d, err := range e.Generate(t.Context(), &parley.Request{Prompt: prompt, Embed: true}) {
				if err != nil {
					t.Fatal(err)
				}
				got = d
			}
			if len(got.Embedding) != 2 || got.Embedding[0] != float32(want[0]) ||
				got.Embedding[1] != float32(want[1]) || got.Usage.PromptTokens != 100 || got.Usage.OutputTokens != 0 {
				t.Errorf("%v, want %v; usage %+v", got.Embedding, want, got.Usage)
			}
			ask(t, e, &parley.Request{Prompt: prompt, MaxTokens: 3})
		}
	}
}

func TestEmbeddingsAreChecked(t *testing.T) {
	e := newCounter(t, &counter{width: 2}, small)
	blind := newCounter(t, &counter{}, small)
	var refused *parley.Error
	if _, _, err := collect(t.Context(), e, &parley.Request{Prompt: long(3, 5), Embed: true, Choices: 2}); !errors.As(
		err, &refused) {
		t.Errorf("two choices: %v", err)
	}
	if _, _, err := collect(t.Context(), blind, &parley.Request{Prompt: long(3, 5), Embed: true}); !errors.As(err,
		&refused) {
		t.Errorf("a network without hidden states: %v", err)
	}
}

// reveal writes the hidden states of a step.
func (n *counter) reveal(step *compute.Step) {
	for _, q := range step.Seqs {
		for r := q.Row; r < q.Row+q.Rows && step.Hidden != nil; r++ {
			step.Hidden[r*n.width], step.Hidden[r*n.width+1] = float32(step.Tokens[r]), float32(q.Past+r-q.Row)
		}
	}
}
