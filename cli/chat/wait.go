package chat

import (
	"fmt"
	"io"
	"os"

	"parley/gateway/openai"
)

// A waitLine says in one line of a terminal what an answer waits for, and is
// gone when the answer begins.
type waitLine struct {
	out     io.Writer
	columns func() int
	pale    func(string) string
	shown   bool
}

// readingSoonMs is how long a prompt may be read before that is worth a line.
const readingSoonMs = 300

func (w *waitLine) show(p openai.Progress) {
	text := waitText(p)
	if text == "" {
		w.clear()
		return
	}
	text = text[:min(len(text), max(w.columns()-1, 0))]
	fmt.Fprint(w.out, "\r\x1b[K"+w.pale(text))
	w.shown = true
}

// clear leaves the terminal as if nothing had been shown.
func (w *waitLine) clear() {
	if w.shown {
		fmt.Fprint(w.out, "\r\x1b[K")
		w.shown = false
	}
}

// waitText describes in ASCII what an answer waits for; empty if there is nothing to show.
func waitText(p openai.Progress) string {
	switch {
	case p.Loading:
		return "loading the model"
	case p.Waiting && p.Ahead == 0 && p.WaitMs == 0:
		return "queued: next"
	case p.Waiting && p.WaitMs == 0:
		return fmt.Sprintf("queued: %d ahead", p.Ahead)
	case p.Waiting && p.Ahead == 0:
		return fmt.Sprintf("queued: next, about %s", shortMs(p.WaitMs))
	case p.Waiting:
		return fmt.Sprintf("queued: %d ahead, about %s", p.Ahead, shortMs(p.WaitMs))
	case p.Processed < p.Total && p.TimeMs >= readingSoonMs:
		return fmt.Sprintf("prefill: %d of %d tokens (%d%%)", p.Processed, p.Total, 100*p.Processed/p.Total)
	}
	return ""
}

// obeysCodes reports whether a terminal can take a line back.
func obeysCodes() bool { return os.Getenv("TERM") != "dumb" }

// reports says whether the server takes a request for reports of progress. Those
// that do tell their models' length in /v1/models; one that does not may refuse
// what it does not know.
func (c *chat) reports() bool {
	for _, m := range c.models {
		if m.ID == c.talk.Model {
			return m.MaxModelLen > 0
		}
	}
	return false
}
