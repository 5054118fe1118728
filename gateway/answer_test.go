package gateway

import (
	"errors"
	"strings"
	"testing"

	"parley"

	"github.com/google/go-cmp/cmp"
)

// pending makes an answer of one choice for which events already wait.
func pending(t *testing.T, stops []string, events ...event) *answer {
	served := Served{ID: modelID, Worker: &worker{}, Tokenizer: tinyTokenizer()}
	waiting := make(chan event, len(events))
	for _, e := range events {
		waiting <- e
	}
	return &answer{
		events: waiting, prompts: make([]answeredPrompt, 1), perPrompt: 1, open: 1,
		choices: []*choice{{text: newText(tinyTokenizer().NewDecoder(true), stops), model: &model{Served: served}}},
		seen:    func(int, step) {},
	}
}

func said(t *testing.T, text string) event {
	d := parley.Delta{Tokens: tokensOf(t, text)}
	for range d.Tokens {
		d.Logprobs = append(d.Logprobs, parley.Logprob{Logprob: -1})
	}
	return event{step: step{delta: d}}
}

func TestPendingDeltasAreJoined(t *testing.T) {
	a := pending(t, nil, said(t, "one"), said(t, " two"), event{err: errors.New("broken")}, said(t, " three"))
	pieces, err := a.next(t.Context(), 0)
	if err != nil || len(pieces) != 1 || pieces[0].text != "one two" || a.over() {
		t.Fatalf("%+v, %v", pieces, err)
	}
	if _, err := a.next(t.Context(), 0); err == nil || err.Error() != "broken" {
		t.Errorf("the error that came behind them is %v", err)
	}
}

// TestTokensFollowTheText checks that the listed tokens are those whose text
// is shown, and that each is listed once.
func TestTokensFollowTheText(t *testing.T) {
	a := pending(t, []string{"STOP"})
	var listed []parley.Token
	for _, text := range []string{"a", "S", "T", "b", "S", "T", "O", "P", "c"} {
		pieces, err := a.accept(said(t, text))
		if err != nil || len(pieces) != 1 {
			t.Fatal(pieces, err)
		}
		p := pieces[0]
		var shown strings.Builder
		for _, token := range p.tokens {
			listed = append(listed, token.Token)
			shown.WriteString(tinyTokenizer().Decode([]parley.Token{token.Token}, true))
		}
		if shown.String() != p.text {
			t.Errorf("after %q the text is %q and the tokens say %q", text, p.text, shown.String())
		}
	}
	pieces, err := a.accept(event{step: step{delta: parley.Delta{Finish: parley.FinishLength, Usage: &parley.Usage{}}}})
	if err != nil || pieces[0].finish != parley.FinishStop || len(pieces[0].tokens) != 0 {
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
		pieces, err := a.accept(event{step: step{delta: parley.Delta{Text: text}}})
		if err != nil {
			t.Fatal(err)
		}
		shown.WriteString(pieces[0].text)
	}
	if got := shown.String(); got != "grüß dich, STEVE. " {
		t.Errorf("shown is %q", got)
	}
	if n := a.choices[0].outputTokens; n != 4 {
		t.Errorf("%d tokens were counted, want one for each of 4 pieces", n)
	}
}
