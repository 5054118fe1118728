package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/dialect"
	"parley/gateway/infer"
	"parley/token"
	"parley/token/gauge"
)

// An Answer puts the deltas of a call together: text and log-probabilities
// for each choice, and usage over all prompts.
type Answer struct {
	// Work is what the events come from.
	work    *infer.Generation
	events  <-chan infer.Event
	Prompts []answeredPrompt
	// Choices holds perPrompt entries for each prompt, in order.
	Choices   []*choice
	PerPrompt int
	// open counts the prompts whose usage has not come yet.
	open  int
	Usage parley.Usage
	// cached is how much of the prompts was found in the cache, as far as that is known before the end.
	cached int
	// later is an error that came behind deltas not yet handed out.
	later error
	// constraint is what the answer is held to.
	constraint *Constraint
	// settled is called when the answer is complete, before its client hears so.
	settled func(*parley.Usage)
	// grow is as in [Options], and granted what it returned; once it allows no more, spent ends all choices.
	grow    func(tokens int64) (granted int64, more bool)
	granted int64
	spent   bool
	// Waiter is where the job stands in the queue, of which its client is told
	// every noticeEvery.
	Waiter      *infer.Waiter
	noticeEvery time.Duration
	// Waiting is true while nothing came but that the call waits; reports asks
	// to be told of that like of the prompt's progress.
	waiting atomic.Bool
	reports bool
	// seen is told of every delta and the index of its choice.
	seen func(choice int, s *infer.Step)
	// judged has moderators outside judge a choice that was collected to its
	// end; nil if none is to be asked.
	judged func(choice int, w *CollectedChoice) error
	gauge  *gauge.Gauge
	again  func(failure error) (*Options, error)
}

// An answeredPrompt is a prompt and what a worker said of it.
type answeredPrompt struct {
	Tokens   []parley.Token
	Logprobs []parley.Logprob
}

// A choice is one continuation while it grows.
type choice struct {
	Text text
	// screen is what its text passes before it is shown; nil if nothing is looked for.
	screen *outputScreen
	// reader separates calls and thoughts from plain text; nil if all text is plain.
	reader *dialect.Reader
	custom customCalls
	tokens *token.Tokenizer
	finish parley.Finish
	// apart is what the engine separates from its text itself.
	apart apartParts
	// everyToken lists tokens without text, too: where the model's end is ignored, they
	// stand in the middle of the answer.
	everyToken bool
	// muted choices show nothing: the client wanted no new tokens.
	muted bool
	// waiting are tokens whose text is not shown yet.
	waiting []ShownToken
	// outputTokens and logprobSum rate the choice against others.
	outputTokens int
	logprobSum   float64
	// thoughtTokens are those of outputTokens that were thoughts.
	thoughtTokens int
	// single is room for what most deltas add.
	single [1]Piece
}

// An apartParts says whether an engine separates thoughts and calls from its text itself, and counts its calls.
type apartParts struct {
	is    bool
	calls int
}

// Options are what makes an answer of a generation.
type Options struct {
	Work     *infer.Generation
	Requests []*parley.Request
	Tokens   *token.Tokenizer
	// Gauge estimates tokens where Tokens is not the model's own tokenizer; nil where it is.
	Gauge *gauge.Gauge
	// Held is what the answer is held to; muted answers show no new tokens.
	Held  *Constraint
	Muted bool
	// Reader makes what reads a choice; nil if all of it is text.
	Reader func() *dialect.Reader
	// Screening is what the text passes before it is shown; nil if nothing is looked
	// for. judged has moderators outside judge a choice that was collected to its end.
	Screening *OutputPolicy
	Judged    func(choice int, w *CollectedChoice) error
	// Seen is told of every delta and the index of its choice, settled of the usage
	// of the complete answer, before the client is.
	Seen    func(choice int, s *infer.Step)
	Settled func(*parley.Usage)
	// Grow is asked with the tokens of all choices once they are as many as it granted, at first 0. It returns how
	// many there may be until it is asked again, and reports whether there may be more at all; nil if there always may.
	Grow func(tokens int64) (granted int64, more bool)
	// NoticeEvery is how often a client is told where it stands while it waits.
	NoticeEvery time.Duration
	// Again is asked when the answer failed before anything of it was shown: it returns what to
	// answer with instead, or the error that the client gets. Nil if that is the failure.
	Again func(failure error) (*Options, error)
}

// New returns the answer that comes of a generation.
func New(o Options) *Answer {
	a := &Answer{again: o.Again, noticeEvery: o.NoticeEvery}
	a.begin(&o)
	return a
}

// begin has the answer come of a generation, of which nothing came yet.
func (a *Answer) begin(o *Options) {
	a.work, a.events, a.later = o.Work, nil, nil
	a.PerPrompt, a.open = max(o.Requests[0].Choices, 1), len(o.Requests)
	a.constraint, a.settled, a.grow, a.granted, a.spent = o.Held, o.Settled, o.Grow, 0, false
	a.Waiter, a.reports = o.Work.Waiter, o.Requests[0].Progress
	a.seen, a.judged, a.gauge = o.Seen, o.Judged, o.Gauge
	a.Prompts, a.Choices, a.cached = nil, nil, 0
	a.waiting.Store(false)
	for _, r := range o.Requests {
		a.Prompts = append(a.Prompts, answeredPrompt{Tokens: r.Prompt})
		for range a.PerPrompt {
			c := &choice{Text: newText(o.Tokens.NewAnswerDecoder(), r.Stop.Strings), tokens: o.Tokens, muted: o.Muted}
			if o.Reader != nil {
				c.reader = o.Reader()
			}
			c.everyToken = r.Stop.IgnoreEnd
			if o.Held != nil {
				c.custom.names = o.Held.custom
			}
			if o.Screening != nil && !o.Muted {
				c.screen = newOutScreen(o.Screening, len(a.Choices))
			}
			a.Choices = append(a.Choices, c)
		}
	}
}

// over reports whether every prompt is answered in full.
func (a *Answer) over() bool { return a.open == 0 && a.later == nil }

// errBroken ends the wait for deltas after a ping failed, which says why.
var errBroken = errors.New("the client cannot be written to")

// next waits for deltas and returns the pieces they add, one for each choice.
func (a *Answer) next(ctx context.Context, broken <-chan struct{}) ([]Piece, error) {
	if a.later != nil {
		return nil, a.later
	}
	if a.events == nil {
		a.events = a.work.Pumped()
	}
	select {
	case e := <-a.events:
		a.waiting.Store(e.Waits())
		return a.gather(e)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-broken:
		return nil, errBroken
	}
}

// gather takes e and all events that already wait behind it.
func (a *Answer) gather(e infer.Event) ([]Piece, error) {
	var pieces []Piece
	for {
		var added []Piece
		err := a.constraint.refused(e.Err)
		if err == nil {
			added, err = a.accept(e.Prompt, &e.Step)
		}
		if err != nil && len(pieces) == 0 {
			return nil, err
		}
		if err != nil {
			a.later = err
			return pieces, nil
		}
		for _, p := range added {
			pieces = Join(pieces, p)
		}
		if a.over() {
			return pieces, nil
		}
		select {
		case e = <-a.events:
		default:
			return pieces, nil
		}
	}
}

// accept takes one delta of the answer to a prompt. What a worker must not send is an error.
func (a *Answer) accept(prompt int, s *infer.Step) ([]Piece, error) {
	if s.Waits() {
		return nil, nil
	}
	d := &s.Delta
	if d.Choice < 0 || d.Choice >= a.PerPrompt {
		return nil, fmt.Errorf("the worker sent choice %d of %d", d.Choice, a.PerPrompt)
	}
	index := prompt*a.PerPrompt + d.Choice
	c := a.Choices[index]
	a.cached += d.CachedTokens
	if c.halted() || a.spent && c.finish != "" {
		return a.afterHalt(prompt, d)
	}
	if c.finish != "" && (d.Count() > 0 || d.Finish != "") {
		return nil, fmt.Errorf("the worker sent more of choice %d after its end", d.Choice)
	}
	if d.PromptLogprobs != nil {
		a.Prompts[prompt].Logprobs = d.PromptLogprobs
	}
	pieces := c.add(d)
	pieces[0].Progress = d.Progress
	pieces = c.screened(pieces, d.Count())
	for i := range pieces {
		pieces[i].Choice, pieces[i].OutputTokens = index, c.outputTokens
		d.Finish = pieces[i].Finish
	}
	if c.finish == "" && a.isSpent() {
		c.finish = parley.FinishLength
		last := &pieces[len(pieces)-1]
		last.Finish, d.Finish = c.finish, c.finish
	}
	a.seen(index, s)
	if c.halted() || a.spent {
		a.endHalted()
		return pieces, nil
	}
	if d.Usage != nil {
		return pieces, a.settle(prompt, *d.Usage)
	}
	return pieces, nil
}

// isSpent reports whether the caller's limits allow no more tokens.
func (a *Answer) isSpent() bool {
	if a.grow == nil || a.spent {
		return a.spent
	}
	tokens := int64(0)
	for _, c := range a.Choices {
		tokens += int64(c.outputTokens)
	}
	if tokens >= a.granted {
		var more bool
		a.granted, more = a.grow(tokens)
		a.spent = !more
	}
	return a.spent
}

// settle adds the usage of an answered prompt. Prompts run side by side, so
// their tokens add up and their times do not.
func (a *Answer) settle(prompt int, u parley.Usage) error {
	for i, c := range a.Choices[prompt*a.PerPrompt : (prompt+1)*a.PerPrompt] {
		if c.finish == "" {
			return fmt.Errorf("the worker ended the answer without a finish for choice %d", i)
		}
		a.Usage.ReasoningTokens += c.thoughtTokens
	}
	a.open--
	if a.Choices[prompt*a.PerPrompt].muted {
		u.OutputTokens = 0
	}
	a.Usage.PromptTokens += u.PromptTokens
	a.Usage.CachedTokens += u.CachedTokens
	a.Usage.Miss = cmp.Or(a.Usage.Miss, u.Miss)
	a.Usage.Unenforced = cmp.Or(a.Usage.Unenforced, u.Unenforced)
	a.Usage.DroppedTokens += u.DroppedTokens
	a.Usage.OutputTokens += u.OutputTokens
	a.Usage.Estimated = a.Usage.Estimated || u.Estimated
	a.Usage.Beside(&u)
	if u.Routing != nil {
		a.Usage.Routing = u.Routing
	}
	if a.open == 0 {
		a.settled(&a.Usage)
	}
	return nil
}

// shown returns the text that a delta lets be shown, which the reader has read.
func (c *choice) shown(d *parley.Delta) (text string) {
	for i, id := range d.Tokens {
		if i < len(d.Logprobs) {
			c.keep(id, d.Logprobs[i])
		}
		text += c.read(c.Text.push(id), 1)
	}
	text += c.read(c.Text.pushText(d.Text), d.Count()-len(d.Tokens))
	if d.Finish != "" {
		text += c.read(c.Text.flush(), 0)
	}
	return text
}

// read lets the reader, if there is one, read the text of the given number of tokens.
func (c *choice) read(text string, tokens int) string {
	if c.reader == nil {
		return text
	}
	thinks := c.reader.Thinks()
	c.reader.Read(text)
	if thinks || c.reader.Thinks() {
		c.thoughtTokens += tokens
	}
	return text
}

// add takes a delta of this choice. There is at least one piece; they are the
// caller's until the next delta.
func (c *choice) add(d *parley.Delta) []Piece {
	if c.muted {
		return []Piece{c.addMuted(d)}
	}
	before := c.takeApart(d)
	shown := c.shown(d)
	c.outputTokens += d.Count()
	pieces := c.single[:]
	pieces[0] = Piece{Text: shown}
	if c.reader != nil {
		if d.Finish != "" {
			c.reader.End(c.Text.stopped || d.Finish != parley.FinishStop)
		}
		pieces = piecesOf(c.reader.Parts())
	}
	pieces = c.withApart(before, pieces)
	c.custom.convert(pieces)
	last := &pieces[len(pieces)-1]
	if d.Finish != "" {
		c.finish = c.reason(d.Finish)
		last.Finish = c.finish
	}
	last.Tokens = c.release()
	return pieces
}

// takeApart takes what an engine separated from its text itself, and returns it
// as pieces. From the first such delta on the text is read for nothing but
// thoughts at its beginning, which some engines leave in it.
func (c *choice) takeApart(d *parley.Delta) (pieces []Piece) {
	if d.Apart && !c.apart.is {
		c.apart.is = true
		if c.reader != nil {
			c.reader = c.reader.NewThoughtReader()
		}
	}
	if d.Thoughts != "" {
		pieces = append(pieces, Piece{Reasoning: d.Thoughts})
		c.thoughtTokens += max(1, d.TextTokens)
	}
	for _, call := range d.Calls {
		if call.Index < 0 || call.Index > c.apart.calls || call.Index == c.apart.calls && call.Name == "" {
			continue // a fragment of a call that never began
		}
		p := CallPiece{Index: call.Index, Arguments: call.Arguments}
		if call.Index == c.apart.calls {
			c.apart.calls++
			p.Name, p.ID = call.Name, call.ID
		}
		pieces = append(pieces, Piece{Calls: []CallPiece{p}})
	}
	return pieces
}

// withApart puts what came apart from the text of a delta in its order: thoughts,
// text, calls.
func (c *choice) withApart(apart, text []Piece) []Piece {
	if len(apart) == 0 {
		return text
	}
	var all []Piece
	if apart[0].Reasoning != "" {
		all, apart = append(all, apart[0]), apart[1:]
	}
	for _, p := range append(slices.Clone(text), apart...) {
		all = Join(all, p)
	}
	return all
}

// reason is why the choice ended, given what the worker says.
func (c *choice) reason(said parley.Finish) parley.Finish {
	switch {
	case c.Text.stopped:
		said = parley.FinishStop
	case said != parley.FinishStop:
		return said
	}
	if c.apart.calls > 0 || c.reader != nil && c.reader.Complete() > 0 {
		return FinishToolCalls
	}
	return said
}

// addMuted takes a delta of a choice that shows nothing.
func (c *choice) addMuted(d *parley.Delta) Piece {
	if d.Finish == "" {
		return Piece{}
	}
	c.finish = parley.FinishLength
	return Piece{Finish: c.finish}
}

// keep remembers a token's log-probabilities until its text is shown. Tokens
// that have no text, such as the one that ends the turn, are not listed.
func (c *choice) keep(id parley.Token, l parley.Logprob) {
	c.logprobSum += float64(l.Logprob)
	if c.Text.stopped || !c.tokens.IsSaid(id) && !c.everyToken {
		return
	}
	l.Token = id
	c.waiting = append(c.waiting, ShownToken{
		Logprob: l, startByte: c.Text.decodedBytes, Offset: c.Text.decodedRunes,
	})
}

// release returns the tokens whose text is shown by now as content. At the end
// of a choice what is still waiting belongs to a stop string or has no text.
func (c *choice) release() []ShownToken {
	known := c.Text.shownBytes
	if c.reader != nil {
		known = c.reader.Known()
	}
	n := 0
	for n < len(c.waiting) && c.waiting[n].startByte < known {
		n++
	}
	if c.everyToken && c.finish != "" && !c.Text.stopped {
		n = len(c.waiting)
	}
	end := c.Text.decodedBytes
	if n < len(c.waiting) {
		end = c.waiting[n].startByte
	}
	released := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	for i := range slices.Backward(released) {
		released[i].endByte, end = end, released[i].startByte
	}
	if c.reader == nil {
		return released
	}
	released = slices.DeleteFunc(released, func(t ShownToken) bool { return !c.reader.IsContent(t.startByte) })
	for i := range released {
		t := &released[i]
		bytes := t.endByte - t.startByte
		t.startByte = c.reader.ContentBefore(t.startByte)
		t.endByte = t.startByte + bytes
	}
	return released
}

// MeanLogprob rates a choice: the higher, the more probable its text.
func (c *choice) MeanLogprob() float64 {
	return c.logprobSum / float64(max(c.outputTokens, 1))
}

// screened sends what a delta added to a choice through its screen. A choice
// that is halted ends there, whatever the worker sends after that.
func (c *choice) screened(pieces []Piece, tokens int) []Piece {
	if c.screen == nil {
		return pieces
	}
	pieces = c.screen.pass(pieces, tokens)
	if c.screen.halted {
		c.finish = FinishFiltered
	}
	return slices.DeleteFunc(pieces, func(p Piece) bool { return p.onlyProgress() && p.Progress == nil })
}

// halted reports whether the policy here ended the choice.
func (c *choice) halted() bool { return c.screen != nil && c.screen.halted }

// afterHalt takes what a worker says of a choice after it was halted: no client
// gets it, but it may be the account of the whole prompt.
func (a *Answer) afterHalt(prompt int, d *parley.Delta) ([]Piece, error) {
	if d.Usage == nil {
		return nil, nil
	}
	return nil, a.settle(prompt, *d.Usage)
}

// endHalted ends an answer all of whose choices have ended, at least one of
// them halted: the worker's account is not waited for, so it is made up from
// what came.
func (a *Answer) endHalted() {
	for _, c := range a.Choices {
		if c.finish == "" {
			return
		}
	}
	a.Usage = parley.Usage{Estimated: a.gauge != nil}
	for i := range a.Prompts {
		a.Usage.PromptTokens += a.gauge.Prompt(len(a.Prompts[i].Tokens))
	}
	a.Usage.CachedTokens = min(a.cached, a.Usage.PromptTokens)
	for _, c := range a.Choices {
		a.Usage.OutputTokens += c.outputTokens
		a.Usage.ReasoningTokens += c.thoughtTokens
	}
	a.open = 0
	a.settled(&a.Usage)
}
