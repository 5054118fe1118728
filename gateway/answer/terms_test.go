package answer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley"
	"parley/gateway/dialect"
)

// TestApart takes the answers of engines that separate thoughts and calls themselves, after a prompt that ends
// inside thoughts, which such engines never see.
func TestApart(t *testing.T) {
	box := dialect.Tools{Syntax: dialect.Table[0], Thoughts: dialect.Thinking[0]}
	collect := func(deltas ...parley.Delta) (w CollectedChoice) {
		c := &choice{
			Text:   newText(tinyTokenizer().NewAnswerDecoder(), nil),
			tokens: tinyTokenizer(),
			reader: box.Reader(nil, false, true)(),
		}
		for _, d := range deltas {
			for _, p := range c.add(&d) {
				w.Add(p)
			}
		}
		return w
	}
	call := func(index int, id, name, arguments string) []parley.ToolCall {
		return []parley.ToolCall{{Index: index, ID: id, Name: name, Arguments: arguments}}
	}
	w := collect(
		parley.Delta{Apart: true, Thoughts: "hm"},
		parley.Delta{Apart: true, Text: "I look."},
		parley.Delta{Apart: true, Calls: call(0, "c1", "weather", "")},
		parley.Delta{Apart: true, Calls: call(0, "", "", `{"city":`)},
		parley.Delta{Apart: true, Calls: call(0, "", "", `"Rom"}`)},
		parley.Delta{Apart: true, Calls: call(1, "", "weather", `{}`)},
		parley.Delta{Apart: true, Calls: call(5, "", "", `lost`)},
		parley.Delta{Apart: true, Finish: parley.FinishStop},
	)
	if w.Reasoning.String() != "hm" || w.Text.String() != "I look." || w.Finish != FinishToolCalls ||
		len(w.Calls) != 2 {
		t.Fatalf("%+v", w.Piece())
	}
	want := CallPiece{ID: "c1", Name: "weather", Arguments: `{"city":"Rom"}`}
	if diff := cmp.Diff(want, w.Piece().Calls[0]); diff != "" {
		t.Error(diff)
	}
	// Text that looks like a call is not one: the engine reports calls itself.
	w = collect(parley.Delta{Apart: true, Text: `<tool_call>{"name": "a", "arguments": {}}</tool_call>`,
		Finish: parley.FinishStop})
	if len(w.Calls) > 0 || w.Finish != parley.FinishStop || w.Reasoning.Len() > 0 {
		t.Errorf("%+v", w.Piece())
	}
	// Thoughts that the engine leaves in its text are still read.
	w = collect(parley.Delta{Apart: true, Text: "<think>hm</think>\nYes", Finish: parley.FinishStop})
	if w.Reasoning.String() != "hm" || w.Text.String() != "Yes" {
		t.Errorf("%+v", w.Piece())
	}
}
