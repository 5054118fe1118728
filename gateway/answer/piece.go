package answer

import (
	"cmp"
	"slices"
	"strings"

	"parley"
	"parley/gateway/dialect"
)

// A ShownToken is a token with its log-probabilities and the place of its text.
type ShownToken struct {
	parley.Logprob
	// startByte is where its text begins and endByte where it ends, in the text of the choice until
	// it is released, and then in what the choice shows as content; Offset is the beginning in
	// characters.
	startByte, endByte, Offset int
}

// A Piece is what was added to one choice: thoughts, then text, then calls.
// What came in another order is in several pieces. The last piece of a choice
// carries the reason for its end.
type Piece struct {
	Choice    int
	Reasoning string
	Text      string
	Calls     []CallPiece
	Tokens    []ShownToken
	Finish    parley.Finish
	// Progress says how far the prompt is, before anything was said.
	Progress *parley.Progress
	// OutputTokens is how many tokens the choice has by now.
	OutputTokens int
}

// A CallPiece is a fragment of a tool call. The calls of a choice have the
// indexes 0, 1, 2…, and a call is complete before the next begins. The first
// fragment of an index has the call's id and name, the others do not; the
// arguments of all its fragments put together are a JSON object as a text,
// unless the answer was cut off.
type CallPiece struct {
	Index     int
	ID, Name  string
	Arguments string
	// Custom calls are those of custom tools: all fragments say so, and Arguments is
	// the tool's input, any text.
	Custom bool
}

// FinishToolCalls is why a choice ended that made calls and was not cut off. A
// worker knows of no tools, so it is said here.
const FinishToolCalls parley.Finish = "tool_calls"

// FinishFiltered is why a choice ended that a safety policy halted.
const FinishFiltered = parley.FinishFiltered

// onlyProgress reports whether the piece adds nothing to the answer.
func (p *Piece) onlyProgress() bool {
	return p.Reasoning == "" && p.Text == "" && len(p.Calls) == 0 && len(p.Tokens) == 0 && p.Finish == ""
}

// Join appends p, or adds it to the last piece of its choice where that keeps
// the order of what was said.
func Join(pieces []Piece, p Piece) []Piece {
	for i := range slices.Backward(pieces) {
		old := &pieces[i]
		if old.Choice != p.Choice {
			continue
		}
		if p.Reasoning != "" && (old.Text != "" || len(old.Calls) > 0) || p.Text != "" && len(old.Calls) > 0 {
			break
		}
		old.Reasoning += p.Reasoning
		old.Text += p.Text
		for _, c := range p.Calls {
			old.addCall(c)
		}
		old.Tokens = append(old.Tokens, p.Tokens...)
		old.Finish = cmp.Or(p.Finish, old.Finish)
		old.Progress = cmp.Or(p.Progress, old.Progress)
		old.OutputTokens = max(old.OutputTokens, p.OutputTokens)
		return pieces
	}
	return append(pieces, p)
}

// IsText reports whether a piece adds text and nothing else.
func (p *Piece) IsText() bool {
	return p.Text != "" && p.Reasoning == "" && len(p.Calls) == 0 && len(p.Tokens) == 0 && p.Finish == "" &&
		p.Progress == nil
}

// addCall appends a fragment, or adds it to the last one of its call.
func (p *Piece) addCall(c CallPiece) {
	if n := len(p.Calls); n > 0 && p.Calls[n-1].Index == c.Index {
		p.Calls[n-1].Arguments += c.Arguments
		return
	}
	p.Calls = append(p.Calls, c)
}

// CollectedChoice is a choice that was collected to its end.
type CollectedChoice struct {
	Reasoning, Text strings.Builder
	Calls           []*collectedCall
	Tokens          []ShownToken
	Finish          parley.Finish
}

// A collectedCall is a call that was collected to its end.
type collectedCall struct {
	ID, Name  string
	Arguments strings.Builder
	Custom    bool
}

// Add takes the next piece of the choice.
func (w *CollectedChoice) Add(p Piece) {
	w.Reasoning.WriteString(p.Reasoning)
	w.Text.WriteString(p.Text)
	for _, c := range p.Calls {
		if c.Index == len(w.Calls) {
			w.Calls = append(w.Calls, &collectedCall{ID: c.ID, Name: c.Name, Custom: c.Custom})
		}
		w.Calls[c.Index].Arguments.WriteString(c.Arguments)
	}
	w.Tokens = append(w.Tokens, p.Tokens...)
	w.Finish = cmp.Or(p.Finish, w.Finish)
}

// Piece returns a collected choice as one piece.
func (w *CollectedChoice) Piece() Piece {
	p := Piece{Reasoning: w.Reasoning.String(), Text: w.Text.String(), Tokens: w.Tokens, Finish: w.Finish}
	for i, c := range w.Calls {
		p.Calls = append(p.Calls, CallPiece{
			Index:     i,
			ID:        c.ID,
			Name:      c.Name,
			Arguments: c.Arguments.String(),
			Custom:    c.Custom,
		})
	}
	return p
}

// piecesOf returns at least one piece.
func piecesOf(parts []dialect.Fragment) (pieces []Piece) {
	for _, p := range parts {
		piece := Piece{Reasoning: p.Thoughts, Text: p.Text}
		if p.Call != nil {
			c := p.Call
			piece.Calls = []CallPiece{{Index: c.Index, ID: c.ID, Name: c.Name, Arguments: c.Arguments}}
		}
		pieces = Join(pieces, piece)
	}
	if len(pieces) == 0 {
		pieces = []Piece{{}}
	}
	return pieces
}
