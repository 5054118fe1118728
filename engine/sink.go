package engine

import (
	"cmp"
	"slices"

	"parley"
)

// A text that may outgrow the context loses tokens behind its first ones, the
// sinks, on which attention rests whatever they say. What is left is computed
// again in its new place, so the model sees an unbroken text, as it was trained
// on. That is done a quarter of the context at a time, so that it happens
// rarely; and it depends on the number of tokens alone, so that the answer does
// not depend on how it was scheduled.

// dropShare is the part of the context that is given up at once.
const dropShare = 4

// checkSinks reports what is wrong with a request that may outgrow the context.
func checkSinks(r *parley.Request, context int) error {
	if most := context / 2; r.SinkTokens < 0 || r.SinkTokens > most {
		return parley.Invalid("attention_sink_tokens",
			"%d sink tokens do not fit a context of %d: use 0 to %d", r.SinkTokens, context, most)
	}
	if r.SinkTokens > 0 && r.PromptLogprobs {
		return parley.Invalid("attention_sink_tokens",
			"log-probabilities of the prompt need the whole prompt: leave out one of the two")
	}
	return nil
}

// fitPrompt returns the prompt as the model will see it at first.
func (j *job) fitPrompt(context int) []parley.Token {
	r := j.req
	drop := overflow(len(r.Prompt), context)
	if r.SinkTokens == 0 || drop == 0 {
		return r.Prompt
	}
	j.dropped += drop * max(1, r.Choices)
	return slices.Delete(slices.Clone(r.Prompt), r.SinkTokens, r.SinkTokens+drop)
}

// overflow returns how many of tokens must be dropped: none while they fit with one
// more, otherwise whole quarters of the context.
func overflow(tokens, context int) int {
	if tokens < context {
		return 0
	}
	quarter := max(1, context/dropShare)
	return (tokens - context + quarter) / quarter * quarter
}

// forget makes room for more in a choice that may outgrow the context, if the
// context is what bounds it, and reports whether it did. Without a bound of its
// own it ends after as many tokens as the context has.
func (l *loop) forget(c *choice) bool {
	r, context := c.job.req, l.cfg.Model.ContextTokens
	drop := overflow(len(c.seq.Tokens), context)
	left := cmp.Or(r.MaxTokens, context) - c.chosen
	if r.SinkTokens == 0 || drop == 0 || left <= 0 {
		return false
	}
	l.sched.Forget(&c.seq, r.SinkTokens, drop, l.now)
	c.job.dropped += drop
	c.seq.Most = min(context, len(c.seq.Tokens)+left)
	return true
}
