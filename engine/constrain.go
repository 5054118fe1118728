package engine

import (
	"context"

	"parley"
	"parley/engine/grammar"
	"parley/engine/spec"
)

const (
	// maskCacheBytes bounds what the loop remembers of masks.
	maskCacheBytes = 64 << 20
	// forcedChance is how often the model spells forced text in the tokens that
	// were guessed for it.
	forcedChance = 0.85
)

// compile turns a request's grammar into a program, on the caller's goroutine:
// however large it is, no step waits for it.
func (e *Engine) compile(ctx context.Context, r *parley.Request) (*grammar.Program, error) {
	if r.Grammar == nil {
		return nil, nil
	}
	e.vocabulary()
	program, err := e.programs.get(ctx, r.Grammar)
	if err == nil && r.FinishGrammar {
		program = program.Measured()
	}
	return program, err
}

// constrain lets a choice begin its grammar.
func (l *loop) constrain(c *choice) {
	if c.job.program == nil {
		return
	}
	if l.masker == nil {
		l.masker = grammar.NewMasker(l.e.vocabulary(), maskCacheBytes)
	}
	c.matcher = l.masker.Start(c.job.program)
}

// scores returns the scores that the choice may choose from.
func (l *loop) scores(c *choice, logits []float32) []float32 {
	if c.matcher == nil {
		return logits
	}
	if l.masked == nil {
		l.masked = make([]float32, l.e.cfg.Vocab)
	}
	c.matcher.Mask().Apply(l.masked, logits)
	return l.masked
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

// offerForced offers the text that must come next as a guess, if there is any.
func (c *choice) offerForced(w *spec.Writer, most int) {
	c.forced = c.forced[:0]
	if c.matcher == nil || most < 1 {
		return
	}
	if c.forced = c.matcher.Forced(c.forced, most); len(c.forced) > 0 {
		w.Offers[spec.ByLookup] = spec.Offer{Most: len(c.forced), Chance: forcedChance}
	}
}

// allowedGuesses drops the guesses that the grammar does not allow, and one
// with which it ends, since nothing comes after it.
func (c *choice) allowedGuesses() {
	if c.matcher == nil || len(c.guess) == 0 {
		return
	}
	ahead := c.matcher.Fork()
	for i, tok := range c.guess {
		if !ahead.Accept(tok) || ahead.Final() {
			c.guess = c.guess[:i]
			return
		}
	}
}
