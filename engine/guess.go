package engine

import (
	"time"

	"parley/engine/spec"
)

// guesses are what the loop decides on guessing with.
type guesses struct {
	writers   []*choice
	bets      []spec.Writer
	decisions []spec.Decision
	// typical is how many tokens an answer has, by those seen lately.
	typical float64
	// spare is the time saved up for a trial.
	spare time.Duration
}

const (
	// typicalFirst is how long an answer is taken to be before any was seen.
	typicalFirst = 64
	// trialShare is how much of the time may go to trials of guesses that do
	// not seem worth it.
	trialShare = 0.02
	// typicalMemory is how many answers typical is an average of, roughly.
	typicalMemory = 16
)

func (g *guesses) learnLength(tokens int) {
	g.typical += (float64(tokens) - g.typical) / typicalMemory
}

// speculate decides for every sequence that writes how far to guess ahead and
// by whom, from how often guesses came true and what they cost at this load.
func (l *loop) speculate() {
	if !l.e.cfg.Speculate {
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
	if d := l.drafter; d != nil {
		costs.DraftPass, costs.DraftRow = d.price(&outlook)
		if !d.pace.Known() {
			costs.Room = 0
		}
		d.rest = max(0, d.rest-1)
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
	w := spec.Writer{Idle: c.idle, Remaining: min(q.Most-len(q.Tokens), int(l.guesses.typical))}
	w.Offers[spec.ByLookup] = c.lookup.Offer(most)
	c.offerForced(&w, most)
	if d := l.drafter; d != nil && d.rest == 0 {
		if c.luck == (spec.Luck{}) {
			c.luck = d.luck.Fresh()
		}
		w.Offers[spec.ByModel] = spec.Offer{Most: most, Chance: c.luck.Chance()}
		w.Behind = max(1, len(q.Tokens)-d.held(q))
	}
	return w
}

// forgo takes back what was decided before.
func (c *choice) forgo() {
	c.by, c.turn.read, c.seq.Draft, c.guess = spec.ByLookup, 0, 0, c.guess[:0]
}

// follow prepares what was decided for the next pass. Guesses by the draft
// network are made when the pass is planned and has memory for them.
func (c *choice) follow(d spec.Decision) {
	c.by, c.turn.read, c.seq.Draft = d.By, d.Read, d.Depth
	c.idle++
	if d.By == spec.ByLookup && d.Depth > 0 {
		if c.guess = append(c.guess, c.forced[:min(d.Depth, len(c.forced))]...); len(c.guess) == 0 {
			c.guess = c.lookup.Guess(c.guess, d.Depth)
		}
		c.allowedGuesses()
		c.seq.Draft = len(c.guess)
	}
}

// learnGuesses takes in how many of the guesses of a pass were right.
func (l *loop) learnGuesses(c *choice, guessed, right int) {
	if guessed == 0 {
		return
	}
	if c.by == spec.ByModel {
		c.luck.Learn(guessed, right)
		l.drafter.luck.Learn(guessed, right)
		c.idle = 0
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	g := &l.e.stats.Guesses[c.by]
	g.Rounds++
	g.Guessed += uint64(guessed)
	g.Right += uint64(right)
}
