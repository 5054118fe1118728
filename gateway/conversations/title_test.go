package conversations

import (
	"testing"

	"parley/gateway/convo"
)

// TestTitles makes titles of questions, and recognises those that a model made up.
func TestTitles(t *testing.T) {
	for asked, want := range map[string]string{
		"Hi": "Hi", "Tell me a short story about a brave cat": "Tell me a short story about a…",
		"One line\nand more": "One line", "": "",
	} {
		if got := convo.TitleOf(asked); got != want {
			t.Errorf("%q gives %q", asked, got)
		}
	}
	for _, c := range []struct {
		title, text string
		want        bool
	}{
		{"Remember the number 811", "User: What is a KV cache?", false},
		{"Caching Keys", "User: What is a KV cache?", true},
		{"On the Sea", "User: A day on the sea", false}, {"Grüße aus Köln", "User: viele GRÜSSE, viele grüße", true},
	} {
		if got := concerns(c.title, c.text); got != c.want {
			t.Errorf("%q concerns %q: %v", c.title, c.text, got)
		}
	}
}
