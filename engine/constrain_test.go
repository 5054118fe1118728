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

// TestAnswersFinishInTime gives answers few tokens: each is complete all the same if that is asked for.
func TestAnswersFinishInTime(t *testing.T) {
	e := newCounter(t, &counter{speculate: true}, sched.Config{Blocks: 100, StepTokens: 100, StepOutputs: 20, Seqs: 8})
	const even = `([2468][02468],){2,6}7,`
	cut := 0
	for seed := range uint64(40) {
		for _, finish := range []bool{false, true} {
			r := &parley.Request{
				Prompt:        long(3, 40),
				MaxTokens:     4 + int(seed)%4,
				Choices:       2,
				Grammar:       new(parley.Regex(even)),
				FinishGrammar: finish,
				Sampling:      parley.Sampling{Temperature: 2, Seed: seed},
			}
			got, _, err := collect(t.Context(), e, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, tokens := range got {
				whole := regexp.MustCompile("^" + even + "$").MatchString(text(tokens))
				if !whole && finish {
					t.Errorf("%q after %d tokens does not match %s", text(tokens), r.MaxTokens, even)
				}
				if !whole {
					cut++
				}
			}
		}
	}
	if cut == 0 {
		t.Error("no answer was cut off: nothing was tested")
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

// TestUnenforcedKeywordsAreNamed asks for a schema that can be held in part only.
func TestUnenforcedKeywordsAreNamed(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"integer","minimum":1}`: "",
		`{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":1},"maxItems":2}`: "uniqueItems",
	} {
		e := newCounter(t, &counter{}, small)
		_, last, err := collect(t.Context(), e, &parley.Request{
			Prompt:    long(3, 4),
			MaxTokens: 4,
			Grammar:   new(parley.Choice(parley.Literal("11,"), parley.JSONSchema([]byte(schema), false))),
		})
		if err != nil || last.Usage == nil || last.Usage.Unenforced != want {
			t.Errorf("%s: %+v, want %q (%v)", schema, last.Usage, want, err)
		}
	}
}
