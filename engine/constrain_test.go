package engine

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"parley"
	"parley/engine/sched"
)

func text(tokens []parley.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.Write(counterBytes(t))
	}
	return b.String()
}

// TestAnswersKeepToTheirGrammar asks for several choices at a high temperature:
// each is what the grammar says, and ends by itself.
func TestAnswersKeepToTheirGrammar(t *testing.T) {
	e := newCounter(t, &counter{speculate: true}, sched.Config{Blocks: 100, StepTokens: 100, StepOutputs: 20, Seqs: 8})
	const even = `([2468][02468],){2,6}7,`
	for seed := range uint64(20) {
		r := &parley.Request{Prompt: long(3, 40), Choices: 3, Grammar: new(parley.Regex(even)),
			Sampling: parley.Sampling{Temperature: 2, Seed: seed}}
		got, last, err := collect(t.Context(), e, r)
		if err != nil || last.Finish != parley.FinishStop {
			t.Fatalf("%+v, %v", last, err)
		}
		for _, tokens := range got {
			if !regexp.MustCompile("^" + even + "$").MatchString(text(tokens)) {
				t.Errorf("%q does not match %s", text(tokens), even)
			}
		}
	}
}

func TestABadGrammarIsRefused(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	for _, g := range []parley.Grammar{parley.Regex("("), parley.JSONSchema([]byte(`{"maxItems":1e99}`), true),
		{Kind: "poem"}} {
		var refused *parley.Error
		_, _, err := collect(t.Context(), e, &parley.Request{Prompt: long(3, 4), Grammar: &g})
		if !errors.As(err, &refused) || refused.Code != parley.InvalidRequest {
			t.Errorf("%+v: %v", g, err)
		}
	}
}
