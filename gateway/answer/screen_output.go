package answer

import (
	"slices"

	"parley/gateway/safety"
)

// An outputScreen stands between one choice of an answer and its client. What the
// model thinks, says and hands to tools are screened each by itself; what was
// taken out of the prompt is put back.
type outputScreen struct {
	policy *OutputPolicy
	choice int
	// reasoning, text and arguments are the channels; arguments is that of the
	// call that is being written, number its index.
	reasoning, text, arguments *channel
	number                     int
	// custom says that the call is one of a custom tool.
	custom bool
	// waiting are tokens whose text is held back, hidden what was replaced or left out of the text
	// since the first of them.
	waiting []ShownToken
	hidden  []safety.ByteRange
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

// An OutputPolicy is what answers are screened by.
type OutputPolicy struct {
	ruling *safety.Ruling
	screen *safety.Screen
	// vault has what was taken out of the prompt.
	vault *safety.Vault
	// note is told of what was decided on a text of a choice.
	note func(choice int, text string, decisions []safety.Decision)
}

// NewOutputPolicy returns the policy for answers, or nil if nothing is looked for in
// them and nothing was taken out of the prompt.
func NewOutputPolicy(
	r *safety.Ruling, s *safety.Screen, v *safety.Vault,
	note func(choice int, text string, decisions []safety.Decision),
) *OutputPolicy {
	if r == nil || !r.LooksAtOutput() && (!r.Restore || v.Empty()) {
		return nil
	}
	return &OutputPolicy{ruling: r, screen: s, vault: v, note: note}
}

// newOutScreen returns the screen of a choice.
func newOutScreen(p *OutputPolicy, choice int) *outputScreen {
	o := &outputScreen{policy: p, choice: choice, number: -1}
	o.reasoning, o.text = o.channel(), o.channel()
	return o
}

func (o *outputScreen) channel() *channel {
	s := o.policy
	ch := &channel{stream: s.screen.NewStream(s.ruling, s.vault)}
	if s.ruling.Restore && !s.vault.Empty() {
		ch.restorer = safety.NewRestorer(s.vault)
	}
	return ch
}

// pass screens the pieces that the given number of tokens added.
func (o *outputScreen) pass(pieces []Piece, tokens int) []Piece {
	out := make([]Piece, 0, len(pieces))
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
func (o *outputScreen) one(p Piece, tokens int) Piece {
	q := p
	q.Reasoning, q.Text, q.Calls, q.Tokens = "", "", nil, nil
	o.waiting = append(o.waiting, p.Tokens...)
	q.Reasoning = o.feed(o.reasoning, p.Reasoning, tokens)
	if p.Text != "" || len(p.Calls) > 0 || p.Finish != "" {
		q.Reasoning += o.drain(o.reasoning)
	}
	q.Text = o.feed(o.text, p.Text, tokens)
	if len(p.Calls) > 0 || p.Finish != "" {
		q.Text += o.drain(o.text)
	}
	for _, c := range p.Calls {
		o.feedCall(&q, c, tokens)
	}
	if p.Finish != "" && o.arguments != nil {
		if rest := o.drain(o.arguments); rest != "" {
			q.addCall(CallPiece{Index: o.number, Arguments: rest, Custom: o.custom})
		}
	}
	q.Tokens = o.release(p.Finish != "")
	if o.halted {
		o.halt(&q)
	}
	return q
}

func (o *outputScreen) feedCall(q *Piece, c CallPiece, tokens int) {
	if c.Index != o.number {
		if o.arguments != nil {
			if rest := o.drain(o.arguments); rest != "" {
				q.addCall(CallPiece{Index: o.number, Arguments: rest, Custom: o.custom})
			}
		}
		o.arguments, o.number, o.custom = o.channel(), c.Index, c.Custom
	}
	args := c.Arguments
	c.Arguments = o.feed(o.arguments, args, tokens)
	if !o.halted && (c.ID != "" || c.Arguments != "") {
		q.addCall(c)
	}
}

// halt ends the choice with a refusal.
func (o *outputScreen) halt(q *Piece) {
	q.Calls, q.Tokens = nil, nil
	q.Finish = FinishFiltered
	if q.Text != "" {
		q.Text += "\n\n"
	}
	q.Text += o.policy.ruling.Refusal
}

func (o *outputScreen) feed(ch *channel, text string, tokens int) string {
	if text == "" || o.halted {
		return ""
	}
	ch.keep(o, text)
	return o.take(ch, ch.stream.Push(text, tokens))
}

// drain ends a channel and returns what it held.
func (o *outputScreen) drain(ch *channel) string {
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
func (ch *channel) keep(o *outputScreen, text string) {
	if o.policy.ruling.LogText {
		ch.whole = append(ch.whole, text...)
	}
}

func (o *outputScreen) take(ch *channel, p safety.StreamOutput) string {
	o.policy.note(o.choice, string(ch.whole), p.Decisions)
	o.halted = o.halted || p.Halted
	ch.through = p.Through
	if ch == o.text {
		o.hidden = append(o.hidden, p.Hidden...)
	}
	if ch.restorer != nil {
		return ch.restorer.Push(p.Text)
	}
	return p.Text
}

// release returns the tokens whose text has left the screen, without those of text that does not
// show.
func (o *outputScreen) release(all bool) []ShownToken {
	n := 0
	for n < len(o.waiting) && (all ||
		o.waiting[n].startByte < o.text.through && o.waiting[n].endByte <= o.text.through) {
		n++
	}
	released := o.waiting[:n:n]
	o.waiting = o.waiting[n:]
	if len(o.hidden) == 0 {
		return released
	}
	released = slices.DeleteFunc(released, func(t ShownToken) bool {
		return slices.ContainsFunc(o.hidden, func(h safety.ByteRange) bool {
			return t.startByte < h.End && h.Start < max(t.endByte, t.startByte+1)
		})
	})
	if len(o.waiting) == 0 {
		o.hidden = o.hidden[:0]
	}
	return released
}
