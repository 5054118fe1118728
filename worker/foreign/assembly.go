package foreign

import (
	"errors"
	"slices"
	"time"

	"parley"
	"parley/token/gauge"
)

// An Assembly puts the answer of a foreign engine together: engines repeat what
// they have said, leave out ids, and tell usage at the end or not at all.
type Assembly struct {
	q       *parley.Request
	choices []choiceState
	ready   []parley.Delta
	usage   parley.Usage
	told    bool // the engine told usage
	open    int  // choices that have not ended
	folded  int  // tokens of the prompt that an earlier worker wrote

	call    string // an answer that is a call, so far
	service serviceState

	began, first time.Time
}

// A serviceState is what is known of an answer of a service whose tokenizer is not known.
type serviceState struct {
	// gauge estimates its tokens; nil for engines whose tokenizer is known.
	gauge *gauge.Gauge
	// thoughts is set once thoughts came; hiddenTokens were counted for thoughts that did not come.
	thoughts     bool
	hiddenTokens int
	// blocks is what the content blocks of a message are, so far.
	blocks []messageBlock
}

// choiceState is how far one choice is.
type choiceState struct {
	tokens int // that were told
	texts  int // pieces that came as text
	bytes  int // of those pieces
	ended  bool
	cut    bool // ended here, and not by the engine
	called bool // ended with a call, after which some engines send further ones
}

// NewAssembly returns the empty answer to q, of whose prompt an earlier worker wrote the last
// folded tokens.
func NewAssembly(q *parley.Request, folded int) *Assembly {
	n := max(1, q.Choices)
	return &Assembly{
		q:       q,
		folded:  folded,
		choices: make([]choiceState, n),
		open:    n,
		began:   time.Now(),
	}
}

var errChoice = errors.New("it has an unexpected choice, or more text of a finished one")

// choice returns the one with a number.
func (a *Assembly) choice(index int) (*choiceState, error) {
	if index < 0 || index >= len(a.choices) || a.choices[index].ended {
		return nil, errChoice
	}
	return &a.choices[index], nil
}

// add adds a delta to a choice. Tokens that end it end it here, too, where the
// engine was not asked to.
func (a *Assembly) add(index int, d parley.Delta) {
	c := &a.choices[index]
	d.Choice = index
	if a.first.IsZero() && d.Count() > 0 {
		a.first = time.Now()
	}
	c.tokens += len(d.Tokens)
	if d.HasText() {
		c.texts++
		a.service.thoughts = a.service.thoughts || d.Thoughts != ""
		n := textBytes(&d)
		c.bytes += n
		if a.service.gauge != nil {
			d.TextTokens = a.service.gauge.Answer(n)
		}
	}
	if d.Finish != "" {
		c.ended = true
		a.open--
	}
	if d.Count() > 0 || d.Finish != "" {
		a.ready = append(a.ready, d)
	}
}

// Deltas returns what can be passed on now. The last delta waits for the usage.
func (a *Assembly) Deltas() []parley.Delta {
	n := len(a.ready)
	if a.open == 0 && n > 0 {
		n--
	}
	out := a.ready[:n]
	a.ready = a.ready[n:]
	return out
}

// Settle ends the choices that ended with a call, when the engine has sent all.
func (a *Assembly) Settle() {
	for i := range a.choices {
		if c := &a.choices[i]; c.called && !c.ended {
			a.add(i, parley.Delta{Apart: true, Finish: parley.FinishStop})
		}
	}
}

// Cut reports whether the answer has ended here, and not by the engine.
func (a *Assembly) Cut() bool {
	return a.open == 0 && slices.ContainsFunc(a.choices, func(c choiceState) bool { return c.cut })
}

// End returns the last delta, with the usage; complete is false if it never came.
func (a *Assembly) End() (last parley.Delta, complete bool) {
	if a.open > 0 || len(a.ready) == 0 {
		return parley.Delta{}, false
	}
	d := a.ready[len(a.ready)-1]
	now := time.Now()
	u := a.counted()
	u.PromptTokens = max(0, u.PromptTokens-a.folded)
	u.Outside = u.Prefill == 0
	if u.Prefill == 0 {
		u.Prefill = a.first.Sub(a.began)
	}
	if u.Decode == 0 {
		u.Decode = now.Sub(a.first)
	}
	d.Usage = &u
	return d, true
}

// GaugedBy has g estimate the tokens of the answer, and learn from what the engine counts.
func (a *Assembly) GaugedBy(g *gauge.Gauge) { a.service.gauge = g }

// counted returns what the engine counted, or what can be said without that.
func (a *Assembly) counted() parley.Usage {
	u, written := a.usage, 0
	for _, c := range a.choices {
		written += c.bytes
	}
	switch {
	case a.told && a.service.gauge != nil:
		a.service.gauge.LearnPrompt(len(a.q.Prompt), u.PromptTokens)
		a.service.gauge.LearnAnswer(written, u.OutputTokens-a.service.hiddenTokens)
	case a.told:
	case a.service.gauge != nil:
		u.Estimated = true
		u.PromptTokens, u.OutputTokens = a.service.gauge.Prompt(len(a.q.Prompt)), a.service.gauge.Answer(written)
	default:
		u.PromptTokens = len(a.q.Prompt)
		for _, c := range a.choices {
			u.OutputTokens += c.tokens + c.texts
		}
	}
	return u
}

// textBytes counts what came as text.
func textBytes(d *parley.Delta) int {
	n := len(d.Text) + len(d.Thoughts)
	for i := range d.Calls {
		n += len(d.Calls[i].Name) + len(d.Calls[i].Arguments)
	}
	return n
}

// finishOf reads why an engine ended a choice: its words for a full stop differ,
// and whatever else it says is a failure.
func finishOf(reason string) (parley.Finish, error) {
	switch reason {
	case "":
		return "", nil
	case "stop", "eos", "word", "eos_token", "stop_sequence", "end_turn", "tool_use", "pause_turn":
		return parley.FinishStop, nil
	case "length", "limit", "max_tokens", "model_context_window_exceeded":
		return parley.FinishLength, nil
	case "refusal", "content_filter":
		return parley.FinishFiltered, nil
	}
	return "", errors.New("it ended with the reason " + reason)
}
