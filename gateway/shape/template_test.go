package shape

import (
	"testing"

	"parley/gateway/answer"
	"parley/gateway/openai"
)

// TestTemplatesSayTheSame compares events from a template with those made from
// their parts, for texts of all kinds.
func TestTemplatesSayTheSame(t *testing.T) {
	for _, shape := range []*Chat{
		{chunk: openai.ChatChunk{ID: "chatcmpl-1", Object: "chat.completion.chunk", Created: 7, Model: "polly"}},
		{chunk: openai.ChatChunk{ID: "chatcmpl-1", Model: "a \"b\" <c>", ServiceTier: "default",
			Usage: &openai.OptionalUsage{}}},
	} {
		for _, text := range []string{"a", " the", "\n", "\"", "\\", "<b>&amp;", "é", "日本", "\x00\x1f\x7f", "\u2028",
			"\xff", templateText, "tab\there"} {
			want, err := openai.Encode(shape.Content(answer.Piece{Text: text}))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := shape.TextEvent([]byte("x"), &answer.Piece{Text: text})
			if !ok || string(got) != "xdata: "+string(want)+"\n\n" {
				t.Errorf("%q became %s, want %s", text, got, want)
			}
		}
	}
}

func TestTemplatesAreNotGuessed(t *testing.T) {
	shape := &Chat{chunk: openai.ChatChunk{Model: templateText}}
	if got, ok := shape.TextEvent(nil, &answer.Piece{Text: "a"}); ok {
		t.Errorf("a model of that name became %s", got)
	}
}
