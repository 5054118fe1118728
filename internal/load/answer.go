package load

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// A chunk is one event of a stream, as any server may send it. Everything is
// optional, and members that servers disagree on (an error's code is a string
// here, a number there) are left out. The gateway's own types are those of one
// exact dialect, and too strict to read others.
type chunk struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content          string `json:"content"`
			Reasoning        string `json:"reasoning"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type usage struct {
	PromptTokens        int `json:"prompt_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// usageTokensMax is more than any answer has; a server that says so is not
// believed.
const usageTokensMax = 1 << 30

func (u *usage) believable() bool {
	for _, n := range []int{u.PromptTokens, u.CompletionTokens, u.PromptTokensDetails.CachedTokens} {
		if n < 0 || n > usageTokensMax {
			return false
		}
	}
	return true
}

func (c *chunk) text() string {
	var all strings.Builder
	for i := range c.Choices {
		d := &c.Choices[i].Delta
		all.WriteString(c.Choices[i].Text + d.Content + d.Reasoning + d.ReasoningContent)
	}
	return all.String()
}

func (c *chunk) finished() bool {
	for i := range c.Choices {
		if c.Choices[i].FinishReason != "" {
			return true
		}
	}
	return false
}

// An answer is what was read of a stream so far.
type answer struct {
	// first and last are the times of the first and the latest piece of text,
	// gap is the longest time between two.
	first, last time.Time
	gap         time.Duration
	pieces      int
	usage       *usage
	finished    bool
	// text is kept only where a later turn repeats it.
	keep bool
	text strings.Builder
}

// keptBytesMax bounds the text kept of one answer.
const keptBytesMax = 1 << 18

var errCut = &failure{Failed, "cut short", "the stream ended before the answer did"}

// read reads a stream to its end.
func (a *answer) read(body io.Reader) error {
	for data, err := range Events(body) {
		switch {
		case err != nil && a.finished:
			return nil // the answer is whole; how the connection ends does not matter
		case err != nil:
			return err
		case string(data) == "[DONE]":
			a.finished = a.finished || a.pieces > 0
			return a.check()
		}
		if err := a.take(data, time.Now()); err != nil {
			return err
		}
	}
	return a.check()
}

func (a *answer) check() error {
	if !a.finished {
		return errCut
	}
	return nil
}

// take adds one event, which came at now.
func (a *answer) take(data []byte, now time.Time) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		var wrongType *json.UnmarshalTypeError
		if !errors.As(err, &wrongType) { // one odd member does not spoil the rest
			return &failure{Failed, "malformed", "an event is not JSON: " + printable(string(data))}
		}
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return &failure{Failed, "error event", ErrorMessage(data)}
	}
	if c.Usage != nil && c.Usage.believable() {
		a.usage = c.Usage
	}
	text := c.text()
	if text == "" && !(a.pieces == 0 && c.finished()) {
		a.finished = a.finished || c.finished()
		return nil
	}
	a.piece(text, now)
	a.finished = a.finished || c.finished()
	return nil
}

// piece notes new text. An answer whose tokens have no text, such as control
// tokens, counts as one piece that came with its end.
func (a *answer) piece(text string, now time.Time) {
	if a.pieces == 0 {
		a.first = now
	} else {
		a.gap = max(a.gap, now.Sub(a.last))
	}
	a.last = now
	a.pieces++
	if a.keep && a.text.Len()+len(text) <= keptBytesMax {
		a.text.WriteString(text)
	}
}

// fill writes the answer's times, counted from intended, and its tokens.
func (a *answer) fill(r *Record, intended, now time.Time) {
	r.Outcome = Completed
	r.TTFT = Millis(a.first.Sub(intended))
	r.Total = Millis(now.Sub(intended))
	r.Gap = Millis(a.gap)
	r.Pieces = a.pieces
	r.OutputTokens, r.Counted = a.pieces, a.usage == nil
	if a.usage != nil {
		r.PromptTokens = a.usage.PromptTokens
		r.CachedTokens = a.usage.PromptTokensDetails.CachedTokens
		r.OutputTokens = a.usage.CompletionTokens
	}
	if r.OutputTokens > 1 {
		r.TPOT = Millis(a.last.Sub(a.first) / time.Duration(r.OutputTokens-1))
	}
}
