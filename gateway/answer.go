package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley"
)

// An answer puts the deltas of a call together: text and log-probabilities
// for each choice, and usage over all prompts.
type answer struct {
	// work is what the events come from.
	work    *generation
	events  <-chan event
	prompts []answeredPrompt
	// choices holds perPrompt entries for each prompt, in order.
	choices   []*choice
	perPrompt int
	// open counts the prompts whose usage has not come yet.
	open  int
	usage parley.Usage
	// later is an error that came behind deltas not yet handed out.
	later error
	// held is what the answer is held to.
	held *constraint
	// bill is settled when the answer is complete, before anybody hears so.
	bill *bill
	// place is where the call stands in the queue, of which its client is told
	// every so often.
	place       *place
	noticeEvery time.Duration
	// timer wakes who waits for news in vain.
	timer *time.Timer
	// waiting is true while nothing came but that the call waits; reports asks
	// to be told of that like of the prompt's progress.
	waiting atomic.Bool
	reports bool
	// seen is told of every delta and the index of its choice.
	seen func(choice int, s step)
	// judged has moderators outside judge a choice that was collected to its
	// end; nil if none is to be asked.
	judged func(choice int, w *whole) error
}

// An answeredPrompt is a prompt and what a worker said of it.
type answeredPrompt struct {
	tokens   []parley.Token
	logprobs []parley.Logprob
}

// A choice is one continuation while it grows.
type choice struct {
	text *text
	// screen is what its text passes before it is shown; nil if nothing is looked for.
	screen *outScreen
	// reader tells calls and thoughts from plain text; nil if all text is plain.
	reader *reader
	model  *model
	finish parley.Finish
	// muted choices show nothing: the client wanted no new tokens.
	muted bool
	// waiting are tokens whose text is not shown yet.
	waiting []shownToken
	// outputTokens and logprobSum rate the choice against others.
	outputTokens int
	logprobSum   float64
	// thoughtTokens are those of outputTokens that were thoughts.
	thoughtTokens int
	// single is room for what most deltas add.
	single [1]piece
}

// A shownToken is a token with its log-probabilities and the place of its text.
type shownToken struct {
	parley.Logprob
	// startByte is where its text begins; offset counts characters instead.
	startByte, offset int
}

// A piece is what was added to one choice: thoughts, then text, then calls.
// What came in another order is in several pieces. The last piece of a choice
// carries the reason for its end.
type piece struct {
	choice    int
	reasoning string
	text      string
	calls     []callPiece
	tokens    []shownToken
	finish    parley.Finish
	// progress says how far the prompt is, before anything was said.
	progress *parley.Progress
	// outputTokens is how many tokens the choice has by now.
	outputTokens int
}

// A callPiece is a fragment of a tool call. The calls of a choice have the
// indexes 0, 1, 2…, and a call is complete before the next begins. The first
// fragment of an index has the call's id and name, the others do not; the
// arguments of all its fragments put together are a JSON object as a text,
// unless the answer was cut off.
type callPiece struct {
	index     int
	id, name  string
	arguments string
}

// finishToolCalls is why a choice ended that made calls and was not cut off. A
// worker knows of no tools, so it is said here.
const finishToolCalls parley.Finish = "tool_calls"

// errSilence says that nothing happened for as long as a caller wanted to wait.
var errSilence = errors.New("silence")

// reportEvery is how often a client that asked for progress is told where it
// stands while it waits for its turn.
const reportEvery = 500 * time.Millisecond

// over reports whether every prompt is answered in full.
func (a *answer) over() bool { return a.open == 0 && a.later == nil }

// plain reports whether each delta becomes one piece of text at most, which nobody
// looks through.
func (a *answer) plain() bool {
	return len(a.choices) == 1 && a.choices[0].screen == nil && a.choices[0].reader == nil
}

// next waits for deltas and returns the pieces they add, one for each choice:
// several deltas are joined only if they already wait. It returns [errSilence]
// if none comes within silence; 0 waits for ever.
func (a *answer) next(ctx context.Context, silence time.Duration) ([]piece, error) {
	if a.later != nil {
		return nil, a.later
	}
	if a.events == nil {
		a.events = a.work.pumped()
	}
	var silent <-chan time.Time
	if silence > 0 {
		if a.waiting.Load() {
			silence = min(silence, a.noticeEvery)
			if a.reports {
				silence = min(silence, reportEvery)
			}
		}
		silent = a.alarm(silence)
		defer a.timer.Stop()
	}
	select {
	case e := <-a.events:
		a.waiting.Store(e.ticket != nil)
		if pieces, err := a.gather(e); len(pieces) > 0 || err != nil || a.over() {
			return pieces, err
		}
		return a.next(ctx, silence)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-silent:
		if where := a.place.stands(); a.reports && where.waiting {
			return []piece{{progress: where.progress(len(a.prompts[0].tokens))}}, nil
		}
		return nil, errSilence
	}
}

// alarm goes off after a time.
func (a *answer) alarm(after time.Duration) <-chan time.Time {
	if a.timer == nil {
		a.timer = time.NewTimer(after)
	} else {
		a.timer.Reset(after)
	}
	return a.timer.C
}

// gather takes e and all events that already wait behind it.
func (a *answer) gather(e event) ([]piece, error) {
	var pieces []piece
	for {
		added, err := a.accept(e)
		if err != nil && len(pieces) == 0 {
			return nil, err
		}
		if err != nil {
			a.later = err
			return pieces, nil
		}
		for _, p := range added {
			pieces = join(pieces, p)
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

// join appends p, or adds it to the last piece of its choice where that keeps
// the order of what was said.
func join(pieces []piece, p piece) []piece {
	for i := range slices.Backward(pieces) {
		old := &pieces[i]
		if old.choice != p.choice {
			continue
		}
		if p.reasoning != "" && (old.text != "" || len(old.calls) > 0) || p.text != "" && len(old.calls) > 0 {
			break
		}
		old.reasoning += p.reasoning
		old.text += p.text
		for _, c := range p.calls {
			old.addCall(c)
		}
		old.tokens = append(old.tokens, p.tokens...)
		old.finish = cmp.Or(p.finish, old.finish)
		old.progress = cmp.Or(p.progress, old.progress)
		old.outputTokens = max(old.outputTokens, p.outputTokens)
		return pieces
	}
	return append(pieces, p)
}

// addCall appends a fragment, or adds it to the last one of its call.
func (p *piece) addCall(c callPiece) {
	if n := len(p.calls); n > 0 && p.calls[n-1].index == c.index {
		p.calls[n-1].arguments += c.arguments
		return
	}
	p.calls = append(p.calls, c)
}

// accept takes one delta. What a worker must not send is an error.
func (a *answer) accept(e event) ([]piece, error) {
	if e.err != nil {
		return nil, a.held.refused(e.err)
	}
	if e.ticket != nil {
		a.place.add(e.ticket)
		return nil, nil
	}
	d := e.delta
	if d.Choice < 0 || d.Choice >= a.perPrompt {
		return nil, fmt.Errorf("the worker sent choice %d of %d", d.Choice, a.perPrompt)
	}
	index := e.prompt*a.perPrompt + d.Choice
	c := a.choices[index]
	if c.finish == finishFiltered {
		return a.afterHalt(e)
	}
	if c.finish != "" && (d.Count() > 0 || d.Finish != "") {
		return nil, fmt.Errorf("the worker sent more of choice %d after its end", d.Choice)
	}
	if d.PromptLogprobs != nil {
		a.prompts[e.prompt].logprobs = d.PromptLogprobs
	}
	pieces := c.add(d)
	pieces[0].progress = d.Progress
	pieces = c.screened(pieces, d.Count())
	for i := range pieces {
		pieces[i].choice, pieces[i].outputTokens = index, c.outputTokens
		d.Finish = pieces[i].finish
	}
	a.seen(index, step{delta: d, shared: e.shared})
	if c.finish == finishFiltered {
		a.endHalted()
		return pieces, nil
	}
	if d.Usage != nil {
		return pieces, a.settle(e.prompt, *d.Usage)
	}
	return pieces, nil
}

// settle adds the usage of an answered prompt. Prompts run side by side, so
// their tokens add up and their times do not.
func (a *answer) settle(prompt int, u parley.Usage) error {
	for i, c := range a.choices[prompt*a.perPrompt : (prompt+1)*a.perPrompt] {
		if c.finish == "" {
			return fmt.Errorf("the worker ended the answer without a finish for choice %d", i)
		}
		a.usage.ReasoningTokens += c.thoughtTokens
	}
	a.open--
	if a.choices[prompt*a.perPrompt].muted {
		u.OutputTokens = 0
	}
	a.usage.PromptTokens += u.PromptTokens
	a.usage.CachedTokens += u.CachedTokens
	a.usage.Miss = cmp.Or(a.usage.Miss, u.Miss)
	a.usage.DroppedTokens += u.DroppedTokens
	a.usage.OutputTokens += u.OutputTokens
	a.usage.Beside(&u)
	if u.Routing != nil {
		a.usage.Routing = u.Routing
	}
	if a.open == 0 {
		a.bill.settle(&a.usage)
	}
	return nil
}

// shown returns the text that a delta lets be shown, which the reader has read.
func (c *choice) shown(d *parley.Delta) (text string) {
	for i, id := range d.Tokens {
		if i < len(d.Logprobs) {
			c.keep(id, d.Logprobs[i])
		}
		text += c.read(c.text.push(id), 1)
	}
	text += c.read(c.text.pushText(d.Text), d.Count()-len(d.Tokens))
	if d.Finish != "" {
		text += c.read(c.text.flush(), 0)
	}
	return text
}

// read lets the reader, if there is one, read the text of so many tokens.
func (c *choice) read(text string, tokens int) string {
	if c.reader == nil {
		return text
	}
	thinks := c.reader.thinks()
	c.reader.read(text)
	if thinks || c.reader.thinks() {
		c.thoughtTokens += tokens
	}
	return text
}

// add takes a delta of this choice. There is at least one piece; they are the
// caller's until the next delta.
func (c *choice) add(d parley.Delta) []piece {
	if c.muted {
		return []piece{c.addMuted(d)}
	}
	shown := c.shown(&d)
	c.outputTokens += d.Count()
	pieces := c.single[:]
	pieces[0] = piece{text: shown}
	if c.reader != nil {
		if d.Finish != "" {
			c.reader.end(c.text.stopped || d.Finish != parley.FinishStop)
		}
		pieces = c.reader.pieces()
	}
	last := &pieces[len(pieces)-1]
	if d.Finish != "" {
		c.finish = c.reason(d.Finish)
		last.finish = c.finish
	}
	last.tokens = c.release()
	return pieces
}

// reason is why the choice ended, given what the worker says.
func (c *choice) reason(said parley.Finish) parley.Finish {
	switch {
	case c.text.stopped:
		said = parley.FinishStop
	case said != parley.FinishStop:
		return said
	}
	if c.reader != nil && c.reader.complete > 0 {
		return finishToolCalls
	}
	return said
}

// addMuted takes a delta of a choice that shows nothing.
func (c *choice) addMuted(d parley.Delta) piece {
	if d.Finish == "" {
		return piece{}
	}
	c.finish = parley.FinishLength
	return piece{finish: c.finish}
}

// keep remembers a token's log-probabilities until its text is shown. Tokens
// that have no text, such as the one that ends the turn, are not listed.
func (c *choice) keep(id parley.Token, l parley.Logprob) {
	c.logprobSum += float64(l.Logprob)
	if c.text.stopped || !c.model.Tokenizer.IsSaid(id) {
		return
	}
	l.Token = id
	c.waiting = append(c.waiting, shownToken{l, c.text.decodedBytes, c.text.decodedRunes})
}

// release returns the tokens whose text is shown by now as content. At the end
// of a choice what is still waiting belongs to a stop string or has no text.
func (c *choice) release() []shownToken {
	known := c.text.shownBytes
	if c.reader != nil {
		known = c.reader.known
	}
	n := 0
	for n < len(c.waiting) && c.waiting[n].startByte < known {
		n++
	}
	released := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	if c.reader == nil {
		return released
	}
	return slices.DeleteFunc(released, func(t shownToken) bool { return !c.reader.isContent(t.startByte) })
}

// meanLogprob rates a choice: the higher, the more probable its text.
func (c *choice) meanLogprob() float64 {
	return c.logprobSum / float64(max(c.outputTokens, 1))
}

// A whole is a choice that was collected to its end.
type whole struct {
	reasoning, text strings.Builder
	calls           []*wholeCall
	tokens          []shownToken
	finish          parley.Finish
}

// A wholeCall is a call that was collected to its end.
type wholeCall struct {
	id, name  string
	arguments strings.Builder
}

func (w *whole) add(p piece) {
	w.reasoning.WriteString(p.reasoning)
	w.text.WriteString(p.text)
	for _, c := range p.calls {
		if c.index == len(w.calls) {
			w.calls = append(w.calls, &wholeCall{id: c.id, name: c.name})
		}
		w.calls[c.index].arguments.WriteString(c.arguments)
	}
	w.tokens = append(w.tokens, p.tokens...)
	w.finish = cmp.Or(p.finish, w.finish)
}

// collect waits for the whole answer.
func (a *answer) collect(ctx context.Context) ([]whole, error) {
	choices := make([]whole, len(a.choices))
	err := a.each(ctx, func(pieces []piece) error {
		for i := range pieces {
			choices[pieces[i].choice].add(pieces[i])
		}
		return nil
	})
	for i := 0; err == nil && a.judged != nil && i < len(choices); i++ {
		err = a.judged(i, &choices[i])
	}
	return choices, err
}

// each hands out what is added until the answer is complete. A single prompt is
// answered on the caller's goroutine.
func (a *answer) each(ctx context.Context, take func([]piece) error) error {
	if a.work != nil && a.work.alone() {
		return a.eachHere(ctx, &sync.Mutex{}, take)
	}
	for !a.over() {
		pieces, err := a.next(ctx, 0)
		if err == nil {
			err = take(pieces)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachHere holds a lock while something is added, for those who look at the call
// meanwhile.
func (a *answer) eachHere(ctx context.Context, lock sync.Locker, take func([]piece) error) error {
	err := a.work.each(func(s step) (bool, error) {
		lock.Lock()
		defer lock.Unlock()
		a.waiting.Store(s.ticket != nil)
		pieces, err := a.accept(event{step: s})
		if err == nil && len(pieces) > 0 {
			err = take(pieces)
		}
		return a.over(), err
	})
	switch {
	case err == nil || a.over():
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return a.held.refused(err)
}
