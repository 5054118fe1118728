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
			got, last, err := collect(t.Context(), e, r)
			if err != nil {
				t.Fatal(err)
			}
			if finish && last.Finish != parley.FinishStop {
				t.Errorf("%q ended by %s", text(got[last.Choice]), last.Finish)
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

// TestAnswersAreSteeredToTheirEnd has a model that does not want to end: if its answers are to be complete, most end
// before the last token of their budget.
func TestAnswersAreSteeredToTheirEnd(t *testing.T) {
	e := newCounter(t, &counter{speculate: true}, sched.Config{Blocks: 100, StepTokens: 100, StepOutputs: 20, Seqs: 8})
	unwilling := map[parley.Token]float32{}
	for tok := range parley.Token(counterVocab) {
		if b := counterBytes(tok); len(b) > 0 && b[0] == '7' {
			unwilling[tok] = -10.5
		}
	}
	const answers = 20
	for finish, want := range map[bool][2]int{false: {0, 0}, true: {answers / 2, answers}} {
		early := 0
		for i := range answers {
			r := &parley.Request{
				Prompt:        long(3, 20+i),
				MaxTokens:     120,
				Grammar:       new(parley.Regex(`([2468][02468],){2,200}7,`)),
				FinishGrammar: finish,
				Sampling:      parley.Sampling{LogitBias: unwilling},
			}
			got, _, err := collect(t.Context(), e, r)
			if err != nil {
				t.Fatal(err)
			}
			if len(got[0]) < r.MaxTokens {
				early++
			}
		}
		if early < want[0] || early > want[1] {
			t.Errorf("to be complete %v: %d of %d answers end early, want %v", finish, early, answers, want)
		}
	}
}
