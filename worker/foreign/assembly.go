package foreign

import (
	"errors"
	"slices"
	"time"

	"parley"
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

	call string // an answer that is a call, so far

	began, first time.Time
}

// choiceState is how far one choice is.
type choiceState struct {
	tokens int // that were told
	texts  int // pieces that came as text
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
	u := a.usage
	if !a.told {
		u.PromptTokens = len(a.q.Prompt)
		for _, c := range a.choices {
			u.OutputTokens += c.tokens + c.texts
		}
	}
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

// finishOf reads why an engine ended a choice: its words for a full stop differ,
// and whatever else it says is a failure.
func finishOf(reason string) (parley.Finish, error) {
	switch reason {
	case "":
		return "", nil
	case "stop", "eos", "word", "eos_token", "stop_sequence":
		return parley.FinishStop, nil
	case "length", "limit":
		return parley.FinishLength, nil
	}
	return "", errors.New("it ended with the reason " + reason)
}
