package engine

import (
	"time"

	"parley/engine/spec"
)

// speculate decides for every sequence that writes how far to guess ahead and
// by whom, from how often guesses came true and what they cost at this load.
func (l *loop) speculate() {
	if !l.cfg.Speculate {
		return
	}
	outlook, known := l.sched.Outlook()
	g := &l.guesses
	g.writers, g.bets = g.writers[:0], g.bets[:0]
	for _, c := range l.owner {
		c.forgo()
		if known && c.writes() {
			g.writers, g.bets = append(g.writers, c), append(g.bets, l.bet(c))
		}
	}
	g.spare += time.Duration(trialShare * float64(outlook.Pass))
	costs := spec.Costs{Pass: outlook.Pass, Row: outlook.Row, Room: outlook.Room, Spare: g.spare}
	if d := l.guesses.drafter; d != nil {
		costs.DraftPass, costs.DraftRow = d.Price(&outlook)
		if !d.Known() {
			costs.Room = 0
		}
		d.Pass()
	}
	decisions, spend := spec.Decide(g.decisions, g.bets, costs)
	for i, c := range g.writers {
		c.follow(decisions[i])
		if decisions[i].Trial {
			g.spare = 0
		}
	}
	g.decisions = decisions
	l.sched.Spend(spend)
}

// writes reports whether the next pass gives the choice its next token. The
// first one is not guessed: others may wait for the same scores.
func (c *choice) writes() bool {
	q := &c.seq
	runs := len(q.Table.Blocks) > 0 && !q.Paused && q.Coming == 0
	return runs && len(q.Tokens) == q.Computed+1 && len(q.Tokens) > q.Prompt
}

// bet returns what there is to know of guessing for a choice.
func (l *loop) bet(c *choice) spec.Writer {
	q := &c.seq
	most := min(spec.DepthMost, q.Most-len(q.Tokens)-1)
	w := spec.Writer{Idle: c.spec.idle, Remaining: min(q.Most-len(q.Tokens), int(l.guesses.typical))}
	w.Offers[spec.ByLookup] = c.spec.lookup.Offer(most)
	c.offerForced(&w, most)
	if d := l.guesses.drafter; d != nil && d.Rest() == 0 {
		if c.spec.acceptance == (spec.Acceptance{}) {
			c.spec.acceptance = d.Acceptance.Fresh()
		}
		w.Offers[spec.ByModel] = spec.Offer{Most: most, Chance: c.spec.acceptance.Chance()}
		w.Behind = max(1, len(q.Tokens)-d.Held(q))
	}
	return w
}

// forgo takes back what was decided before.
func (c *choice) forgo() {
	c.spec.by, c.spec.Read, c.seq.Draft, c.spec.Guess = spec.ByLookup, 0, 0, c.spec.Guess[:0]
}

// follow prepares what was decided for the next pass. Guesses by the draft
// network are made when the pass is planned and has memory for them.
func (c *choice) follow(d spec.Decision) {
	g := &c.spec
	g.by, g.Read, c.seq.Draft = d.By, d.Read, d.Depth
	g.idle++
	if d.By == spec.ByLookup && d.Depth > 0 {
		if g.Guess = append(g.Guess, g.forced[:min(d.Depth, len(g.forced))]...); len(g.Guess) == 0 {
			g.Guess = g.lookup.Guess(g.Guess, d.Depth)
		}
		c.allowedGuesses()
		c.seq.Draft = len(g.Guess)
	}
}

// offerForced offers the text that must come next as a guess, if there is any.
func (c *choice) offerForced(w *spec.Writer, most int) {
	c.spec.forced = c.spec.forced[:0]
	if c.matcher == nil || most < 1 {
		return
	}
	if c.spec.forced = c.matcher.Forced(c.spec.forced, most); len(c.spec.forced) > 0 {
		w.Offers[spec.ByLookup] = spec.Offer{Most: len(c.spec.forced), Chance: forcedChance}
	}
}

// forcedChance is how often the model spells forced text in the tokens that
// were guessed for it.
const forcedChance = 0.85

// allowedGuesses drops the guesses that the grammar does not allow, and one
// with which it ends, since nothing comes after it.
func (c *choice) allowedGuesses() {
	if c.matcher == nil || len(c.spec.Guess) == 0 {
		return
	}
	ahead := c.matcher.Fork()
	for i, tok := range c.spec.Guess {
		if !ahead.Accept(tok) || ahead.Final() {
			c.spec.Guess = c.spec.Guess[:i]
			return
		}
	}
}

// learnGuesses takes in how many of the guesses of a pass were right.
func (l *loop) learnGuesses(c *choice, guessed, right int) {
	if guessed == 0 {
		return
	}
	if c.spec.by == spec.ByModel {
		c.spec.acceptance.Learn(guessed, right)
		l.guesses.drafter.Acceptance.Learn(guessed, right)
		c.spec.idle = 0
	}
	l.stats.guessed(c.spec.by, guessed, right)
}
