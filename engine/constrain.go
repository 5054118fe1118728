package engine

import (
	"parley"
	"parley/engine/grammar"
)

// maskCacheBytes bounds what the loop remembers of masks.
const maskCacheBytes = 64 << 20

// masks are what grammars take of scores. Only the loop uses them.
type masks struct {
	vocabulary func() *grammar.Vocabulary
	masker     *grammar.Masker
	masked     []float32 // scores of the tokens that a grammar allows
}

// constrain lets a choice begin its grammar.
func (m *masks) constrain(c *choice) {
	if c.job.program == nil {
		return
	}
	if m.masker == nil {
		m.masker = grammar.NewMasker(m.vocabulary(), maskCacheBytes)
	}
	c.matcher = m.masker.Start(c.job.program)
}

// scores returns the scores that the choice may choose from.
func (m *masks) scores(c *choice, logits []float32) []float32 {
	if c.matcher == nil {
		return logits
	}
	if m.masked == nil {
		m.masked = make([]float32, len(logits))
	}
	c.matcher.Mask().Apply(m.masked, logits)
	return m.masked
}

// accept advances the grammar by a token, and reports whether it knows the
// token there and whether nothing can follow it.
func (c *choice) accept(tok parley.Token) (allowed, final bool) {
	if c.matcher == nil {
		return true, false
	}
	allowed = c.matcher.Accept(tok)
	return allowed, c.matcher.Final()
}

// steerMost is what is added at most to the score of a token that leads to the end: as much as hardly any model
// prefers one token to another.
const steerMost = 12

// completes reports whether the choice must complete its grammar in the tokens it has.
func (c *choice) completes() bool { return c.matcher != nil && c.job.req.FinishGrammar }

// steer returns tokens that lead to the end of the text, and what is added to their scores: something from when half
// of the token budget is spare on, and the more the less is. A string that a small model would not end is closed before
// nothing is left for what follows it. The tokens are good until the next call.
func (c *choice) steer() (tokens []parley.Token, by float32) {
	left := c.seq.Most - len(c.seq.Tokens)
	zone := (left + c.chosen) / 2
	if len(c.finish) > 0 || left-c.matcher.Left() >= zone { // a byte takes at most one token
		return nil, 0
	}
	var needed int
	c.nearer, needed = c.matcher.AppendNearer(c.nearer[:0])
	near := 1 - float32(max(0, left-needed))/float32(max(1, zone))
	if near <= 0 {
		return nil, 0
	}
	return c.nearer, steerMost * near * near
}

// inTime returns tok, unless the text could then not be completed any more in the tokens that are left and the request
// asks for that: then it returns the next token of the shortest completion.
func (c *choice) inTime(tok parley.Token) parley.Token {
	if len(c.finish) == 0 {
		left := c.seq.Most - len(c.seq.Tokens) - 1
		ahead := c.matcher.Fork()
		if !ahead.Accept(tok) || ahead.Left() <= left { // a byte takes at most one token
			return tok
		}
		if rest, ok := ahead.Completion(); ok && len(rest) <= left {
			return tok
		}
		if c.matcher.Done() {
			if end, ok := c.matcher.End(); ok {
				return end
			}
			return tok
		}
		if c.finish, _ = c.matcher.Completion(); len(c.finish) == 0 {
			return tok
		}
	}
	tok, c.finish = c.finish[0], c.finish[1:]
	return tok
}
