package answer

import (
	"errors"
	"strings"
	"testing"

	"parley"
	"parley/gateway/infer"

	"github.com/google/go-cmp/cmp"
)

// pending makes an answer of one choice for which events already wait.
func pending(t *testing.T, stops []string, events ...infer.Event) *Answer {
	waiting := make(chan infer.Event, len(events))
	for _, e := range events {
		waiting <- e
	}
	return &Answer{
		events: waiting, Prompts: make([]answeredPrompt, 1), PerPrompt: 1, open: 1,
		Choices: []*choice{{Text: newText(tinyTokenizer().NewDecoder(true), stops), tokens: tinyTokenizer()}},
		seen:    func(int, *infer.Step) {},
		settled: func(*parley.Usage) {},
	}
}

func said(t *testing.T, text string) infer.Event {
	d := parley.Delta{Tokens: tokensOf(t, text)}
	for range d.Tokens {
		d.Logprobs = append(d.Logprobs, parley.Logprob{Logprob: -1})
	}
	return infer.Event{Step: infer.Step{Delta: d}}
}

func TestPendingDeltasAreJoined(t *testing.T) {
	a := pending(t, nil, said(t, "one"), said(t, " two"), infer.Event{Err: errors.New("broken")}, said(t, " three"))
	pieces, err := a.next(t.Context(), nil)
	if err != nil || len(pieces) != 1 || pieces[0].Text != "one two" || a.over() {
		t.Fatalf("%+v, %v", pieces, err)
	}
	if _, err := a.next(t.Context(), nil); err == nil || err.Error() != "broken" {
		t.Errorf("the error that came behind them is %v", err)
	}
}

// TestTokensFollowTheText checks that the listed tokens are those whose text
// is shown, and that each is listed once.
func TestTokensFollowTheText(t *testing.T) {
	a := pending(t, []string{"STOP"})
	var listed []parley.Token
	for _, text := range []string{"a", "S", "T", "b", "S", "T", "O", "P", "c"} {
		s := said(t, text).Step
		pieces, err := a.accept(0, &s)
		if err != nil || len(pieces) != 1 {
			t.Fatal(pieces, err)
		}
		p := pieces[0]
		var shown strings.Builder
		for _, token := range p.Tokens {
			listed = append(listed, token.Token)
			shown.WriteString(tinyTokenizer().Decode([]parley.Token{token.Token}, true))
		}
		if shown.String() != p.Text {
			t.Errorf("after %q the text is %q and the tokens say %q", text, p.Text, shown.String())
		}
	}
	pieces, err := a.accept(0, &infer.Step{Delta: parley.Delta{Finish: parley.FinishLength, Usage: &parley.Usage{}}})
	if err != nil || pieces[0].Finish != parley.FinishStop || len(pieces[0].Tokens) != 0 {
		t.Errorf("at the end: %+v, %v", pieces, err)
	}
	if want := tokensOf(t, "a"); !cmp.Equal(listed[:1], want) || len(listed) != 4 || !a.over() {
		t.Errorf("listed %v", listed)
	}
}

// TestTextOfWorkersWithoutIDs checks that text that comes without ids is shown
// as it is, cut at stop strings, and counted by pieces.
func TestTextOfWorkersWithoutIDs(t *testing.T) {
	a := pending(t, []string{"STOP"})
	var shown strings.Builder
	for _, text := range []string{"grüß", " dich, ST", "EVE. S", "TOP and more"} {
		pieces, err := a.accept(0, &infer.Step{Delta: parley.Delta{Text: text}})
		if err != nil {
			t.Fatal(err)
		}
		shown.WriteString(pieces[0].Text)
	}
	if got := shown.String(); got != "grüß dich, STEVE. " {
		t.Errorf("shown is %q", got)
	}
	if n := a.Choices[0].outputTokens; n != 4 {
		t.Errorf("%d tokens were counted, want one for each of 4 pieces", n)
	}
}
