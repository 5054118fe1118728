package engine

import (
	"fmt"

	"parley"
	"parley/engine/sample"
	"parley/engine/sched"
)

// scorePrompt records the log-probability of each prompt token that follows a
// computed one.
func (l *loop) scorePrompt(c *choice, p sched.Part, rows []float32) error {
	from := c.seq.Computed - p.Tokens
	next := c.seq.Tokens[from+1 : min(c.seq.Computed+1, c.seq.Prompt)]
	if from == 0 { // again, if it was preempted on the way
		c.job.promptLogprobs = c.job.promptLogprobs[:0]
	}
	var err error
	c.job.promptLogprobs, err = sample.AppendLogprobs(c.job.promptLogprobs, rows[:len(next)*l.cfg.Vocab], next,
		c.job.req.TopLogprobs, &l.buffers.scratch)
	return err
}

// choose picks the choice's next token and delivers it. It reports whether
// the choice continues after it.
func (l *loop) choose(c *choice, logits []float32) (tok parley.Token, more bool) {
	j := c.job
	if j.done {
		return 0, false
	}
	scores := l.masks.scores(c, logits)
	if c.completes() {
		tokens, by := c.steer()
		for _, tok := range tokens {
			scores[tok] += by
		}
	}
	tok, err := c.sampler.Choose(scores, &l.buffers.scratch)
	if err != nil {
		l.fail(j, fmt.Errorf("engine: %w", err))
		return 0, false
	}
	if c.completes() {
		tok = c.inTime(tok)
	}
	var logprobs []parley.Logprob
	if j.req.Logprobs {
		logprobs = []parley.Logprob{sample.Logprobs(logits, tok, j.req.TopLogprobs, &l.buffers.scratch)}
	}
	return tok, l.say(c, tok, logprobs)
}

// say makes tok the next token of the choice and delivers it. It reports whether the
// choice has more to say.
func (l *loop) say(c *choice, tok parley.Token, logprobs []parley.Logprob) (more bool) {
	j := c.job
	end, _ := l.take(c, tok)
	j.output++
	l.observeToken(c)

	d := parley.Delta{
		Choice:     c.index,
		Tokens:     []parley.Token{tok},
		Logprobs:   logprobs,
		Finish:     end.finish,
		StopString: end.matched,
	}
	d.PromptLogprobs, j.promptLogprobs = j.promptLogprobs, nil
	if j.output == 1 {
		d.CachedTokens = j.choices[0].seq.Cached.HitTokens
	}
	l.deliver(c, d)
	return d.Finish == ""
}

func (l *loop) observeToken(c *choice) {
	first, since := c.wrote.IsZero(), c.wrote
	if first {
		since = c.job.times.arrived
	}
	l.cfg.Observe.token(first, l.now.Sub(since))
	c.wrote = l.now
}

// An ending is why a choice ends after a token; the zero value means that it continues.
type ending struct {
	finish  parley.Finish
	matched string
}

// take makes a token the next of a choice, and says whether it ends there.
// Allowed is false for one that the grammar does not know.
func (l *loop) take(c *choice, tok parley.Token) (end ending, allowed bool) {
	c.sampler.Accept(tok)
	c.seq.Tokens = append(c.seq.Tokens, tok)
	if c.spec.lookup != nil {
		c.spec.lookup.Push(tok)
	}
	c.chosen++
	stop, matched := c.stopper.Push(tok)
	allowed, final := c.accept(tok)
	switch {
	case stop || final:
		return ending{parley.FinishStop, matched}, allowed
	case l.forget(c):
	case len(c.seq.Tokens) >= c.seq.Most && c.matcher != nil && c.job.req.FinishGrammar && c.matcher.Done():
		return ending{finish: parley.FinishStop}, allowed
	case len(c.seq.Tokens) >= c.seq.Most:
		return ending{finish: parley.FinishLength}, allowed
	}
	return ending{}, allowed
}
