package gateway

import (
	"slices"

	"parley"
	"parley/gateway/safety"
)

// An outScreen stands between one choice of an answer and its client. What the
// model thinks, says and hands to tools are screened each by itself; what was
// taken out of the prompt is put back.
type outScreen struct {
	call   *call
	choice int
	// reasoning, text and arguments are the channels; arguments is that of the
	// call that is being written, number its index.
	reasoning, text, arguments *channel
	number                     int
	// waiting are tokens whose text is held back.
	waiting []shownToken
	halted  bool
}

// A channel is one text of an answer on its way through the screen.
type channel struct {
	stream   *safety.Stream
	restorer *safety.Restorer
	// through is how many bytes have left the screen.
	through int
	whole   []byte
}

// newOutScreen returns the screen of a choice, or nil if nothing is looked for
// in answers and nothing was taken out of the prompt.
func (c *call) newOutScreen(choice int) *outScreen {
	s := &c.screening
	if s.ruling == nil || c.beside || !s.ruling.LooksAtOutput() && (!s.ruling.Restore || s.vault.Empty()) {
		return nil
	}
	o := &outScreen{call: c, choice: choice, number: -1}
	o.reasoning, o.text = o.channel(), o.channel()
	return o
}

func (o *outScreen) channel() *channel {
	s := &o.call.screening
	ch := &channel{stream: o.call.gateway.safety.Screen.NewStream(s.ruling)}
	if s.ruling.Restore && !s.vault.Empty() {
		ch.restorer = safety.NewRestorer(s.vault)
	}
	return ch
}

// pass screens the pieces that so many tokens added.
func (o *outScreen) pass(pieces []piece, tokens int) []piece {
	out := make([]piece, 0, len(pieces))
	for _, p := range pieces {
		if o.halted {
			break
		}
		out = append(out, o.one(p, tokens))
		tokens = 1
	}
	return out
}

// one screens a piece. The end of thinking is where speaking begins, and the
// end of speaking where a call does: what the channel before held comes out.
func (o *outScreen) one(p piece, tokens int) piece {
	q := p
	q.reasoning, q.text, q.calls, q.tokens = "", "", nil, nil
	o.waiting = append(o.waiting, p.tokens...)
	q.reasoning = o.feed(o.reasoning, p.reasoning, tokens)
	if p.text != "" || len(p.calls) > 0 || p.finish != "" {
		q.reasoning += o.drain(o.reasoning)
	}
	q.text = o.feed(o.text, p.text, tokens)
	if len(p.calls) > 0 || p.finish != "" {
		q.text += o.drain(o.text)
	}
	for _, c := range p.calls {
		o.feedCall(&q, c, tokens)
	}
	if p.finish != "" && o.arguments != nil {
		if rest := o.drain(o.arguments); rest != "" {
			q.addCall(callPiece{index: o.number, arguments: rest})
		}
	}
	q.tokens = o.release(p.finish != "")
	if o.halted {
		o.halt(&q)
	}
	return q
}

func (o *outScreen) feedCall(q *piece, c callPiece, tokens int) {
	if c.index != o.number {
		if o.arguments != nil {
			if rest := o.drain(o.arguments); rest != "" {
				q.addCall(callPiece{index: o.number, arguments: rest})
			}
		}
		o.arguments, o.number = o.channel(), c.index
	}
	args := c.arguments
	c.arguments = o.feed(o.arguments, args, tokens)
	if !o.halted && (c.id != "" || c.arguments != "") {
		q.addCall(c)
	}
}

// halt ends the choice with a refusal.
func (o *outScreen) halt(q *piece) {
	q.calls, q.tokens = nil, nil
	q.finish = finishFiltered
	if q.text != "" {
		q.text += "\n\n"
	}
	q.text += o.call.screening.ruling.Refusal
}

func (o *outScreen) feed(ch *channel, text string, tokens int) string {
	if text == "" || o.halted {
		return ""
	}
	ch.keep(o, text)
	return o.take(ch, ch.stream.Push(text, tokens))
}

// drain ends a channel and returns what it held.
func (o *outScreen) drain(ch *channel) string {
	if o.halted {
		return ""
	}
	rest := o.take(ch, ch.stream.Close())
	if ch.restorer != nil && !o.halted {
		rest += ch.restorer.Flush()
	}
	return rest
}

// keep remembers the text where events are to quote it.
func (ch *channel) keep(o *outScreen, text string) {
	if o.call.screening.ruling.LogText {
		ch.whole = append(ch.whole, text...)
	}
}

func (o *outScreen) take(ch *channel, p safety.Passed) string {
	o.call.noteSafety("output", safety.FromModel, o.choice, string(ch.whole), "", p.Decisions)
	o.halted = o.halted || p.Halted
	ch.through = p.Through
	if ch.restorer != nil {
		return ch.restorer.Push(p.Text)
	}
	return p.Text
}

// release returns the tokens whose text has left the screen.
func (o *outScreen) release(all bool) []shownToken {
	n := 0
	for n < len(o.waiting) && (all || o.waiting[n].startByte < o.text.through) {
		n++
	}
	released := o.waiting[:n:n]
	o.waiting = o.waiting[n:]
	return released
}

// screened sends what a delta added to a choice through its screen. A choice
// that is halted ends there, whatever the worker goes on to say.
func (c *choice) screened(pieces []piece, tokens int) []piece {
	if c.screen == nil {
		return pieces
	}
	pieces = c.screen.pass(pieces, tokens)
	if c.screen.halted {
		c.finish = finishFiltered
	}
	return slices.DeleteFunc(pieces, func(p piece) bool {
		return p.reasoning == "" && p.text == "" && len(p.calls) == 0 && len(p.tokens) == 0 && p.finish == "" && p.progress == nil
	})
}

// afterHalt takes what a worker says of a choice after it was halted: nobody
// hears it, but it may be the account of the whole prompt.
func (a *answer) afterHalt(e event) ([]piece, error) {
	if e.delta.Usage == nil {
		return nil, nil
	}
	return nil, a.settle(e.prompt, *e.delta.Usage)
}

// endHalted ends an answer all of whose choices have ended, at least one of
// them halted: nobody waits for the worker's account, so it is made up from
// what came.
func (a *answer) endHalted() {
	for _, c := range a.choices {
		if c.finish == "" {
			return
		}
	}
	a.usage = parley.Usage{}
	for i := range a.prompts {
		a.usage.PromptTokens += len(a.prompts[i].tokens)
	}
	for _, c := range a.choices {
		a.usage.OutputTokens += c.outputTokens
		a.usage.ReasoningTokens += c.thoughtTokens
	}
	a.open = 0
	a.bill.settle(&a.usage)
}
