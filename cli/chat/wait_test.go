package chat

import (
	"strings"
	"testing"

	"parley/gateway/openai"
)

func TestWaitText(t *testing.T) {
	for _, c := range []struct {
		p    openai.Progress
		want string
	}{
		{openai.Progress{Waiting: true}, "queued: next"},
		{openai.Progress{Waiting: true, WaitMs: 1500}, "queued: next, about 1.5s"},
		{openai.Progress{Waiting: true, Ahead: 3}, "queued: 3 ahead"},
		{openai.Progress{Waiting: true, Ahead: 3, WaitMs: 12_340}, "queued: 3 ahead, about 12.3s"},
		{openai.Progress{Total: 400, Processed: 100, TimeMs: 900}, "prefill: 100 of 400 tokens (25%)"},
		{openai.Progress{Total: 400, Processed: 100, TimeMs: 20}, ""},
		{openai.Progress{Total: 400, Processed: 400, TimeMs: 900}, ""},
	} {
		if got := waitText(c.p); got != c.want {
			t.Errorf("%+v says %q, want %q", c.p, got, c.want)
		}
	}
}

func TestWaitLineFitsAndGoes(t *testing.T) {
	var out strings.Builder
	w := waitLine{out: &out, columns: func() int { return 12 }, pale: func(s string) string { return s }}
	w.clear()
	w.show(openai.Progress{Waiting: true, Ahead: 3})
	w.show(openai.Progress{Waiting: true, Ahead: 2})
	w.show(openai.Progress{Total: 4, Processed: 4})
	w.clear()
	if want := "\r\x1b[Kqueued: 3 a\r\x1b[Kqueued: 2 a\r\x1b[K"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}
