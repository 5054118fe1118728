package spec

import (
	"time"

	"parley/internal/exactmath"
)

// A Drafter is where guesses come from.
type Drafter uint8

const (
	// ByLookup guesses with [Lookup], at no cost but the guess's row.
	ByLookup Drafter = iota
	// ByModel guesses with a smaller network: one pass of it for each guess.
	ByModel
	// Drafters is how many there are.
	Drafters = iota
)

// String returns the drafter's name in metrics.
func (d Drafter) String() string { return [Drafters]string{"lookup", "model"}[d] }

// Costs are what a pass and its guesses are expected to take.
type Costs struct {
	// Pass is a pass without guesses, Row what each guess adds to it.
	Pass, Row time.Duration
	// DraftPass is a pass of the draft network, DraftRow each row in it.
	DraftPass, DraftRow time.Duration
	// Room is how long the draft network may read texts it is far behind with
	// before the pass without a noticeable delay. A few tokens
	// are read in any case.
	Room time.Duration
	// Spare is how long a trial of guesses that do not seem worth it may take:
	// chances and costs are only known as long as guesses are made.
	Spare time.Duration
}

// An Offer is what one drafter could do for a sequence.
type Offer struct {
	// Most is how many tokens it can guess; 0 means none.
	Most int
	// Chance is how likely a guess is right if all before it were.
	Chance float64
}

// A Writer is a sequence that will get its next token in the coming pass.
type Writer struct {
	// Offers are those of each drafter.
	Offers [Drafters]Offer
	// Behind is how many tokens the draft network has to read before its first
	// guess, the last known one included.
	Behind int
	// Idle is for how many passes the draft network has not guessed.
	Idle int
	// Remaining is how many tokens the sequence is expected to write yet.
	Remaining int
}

// A Decision is what is done for one writer.
type Decision struct {
	// Depth is how many tokens are guessed, by the drafter By.
	Depth int
	By    Drafter
	// Read is how many tokens the draft network reads for this writer before
	// the pass. Without Depth it only catches up.
	Read int
	// Trial is set where the guesses are made to learn from them.
	Trial bool
}

const (
	// DepthMost bounds the guesses of one pass for one sequence.
	DepthMost = 8
	// gainLeast is by which share a token must come sooner, as far as the costs
	// tell, for any guess to be made: what is gained less is not sure.
	gainLeast = 0.03
	// probeAfter is after how many passes without a guess by the network one is
	// tried, to notice when they would be right again.
	probeAfter = 16
	// readFree is how many tokens the draft network reads without asking for
	// room: at least what comes of one pass.
	readFree = DepthMost + 1
	// trialDepth is how many guesses a trial has.
	trialDepth = 2
	// refinements bounds how often the worth of a token is worked out again.
	refinements = 4
)

// Decide says for each writer how many tokens to guess and with which drafter,
// and how long the draft network will take for it.
//
// It looks for the most tokens in the least time. A guess is worth its cost if
// the time that a token takes, times the chance that this guess and all before
// it are right, is more than it costs. How long a token takes depends in turn
// on the guesses made; so Decide begins with a pass without any and goes round
// until it gets no better, which takes two or three turns.
func Decide(dst []Decision, writers []Writer, c Costs) (decisions []Decision, draft time.Duration) {
	if len(writers) == 0 || c.Pass <= 0 {
		return append(dst[:0], make([]Decision, len(writers))...), 0
	}
	plain := float64(c.Pass) / float64(len(writers))
	d := decider{writers: writers, costs: c, worth: plain, out: dst[:0]}
	for range refinements {
		d.bet()
		perToken := d.timePerToken()
		if perToken >= d.worth {
			break
		}
		d.worth = perToken
	}
	if d.worth > plain*(1-gainLeast) {
		d.abstain()
		d.try()
	}
	d.read()
	return d.out, time.Duration(d.draftTime())
}

// A decider works out one decision. Times are in nanoseconds.
type decider struct {
	writers []Writer
	costs   Costs
	worth   float64 // how long a token takes
	out     []Decision
}

// bet gives each writer the drafter and depth that gain most at the present
// worth of a token.
func (d *decider) bet() {
	d.choose(d.sharers())
	if d.prune() == 0 {
		d.choose(0)
	}
}

// sharers returns how many writers could use the draft network.
func (d *decider) sharers() (n int) {
	for i := range d.writers {
		if d.writers[i].Offers[ByModel].Most > 0 {
			n++
		}
	}
	return n
}

// choose lets each writer bet for itself, if the draft network's passes are
// shared by that many sharers. With none, no writer uses it.
func (d *decider) choose(sharers int) {
	d.out = d.out[:0]
	for i := range d.writers {
		w := &d.writers[i]
		depth, gain := d.depth(w.Offers[ByLookup], float64(d.costs.Row))
		best := Decision{Depth: depth, By: ByLookup}
		if sharers > 0 {
			offer := probed(w)
			guess := d.modelRow() + float64(d.costs.DraftPass)/float64(sharers)
			depth, modelGain := d.depth(offer, guess)
			if modelGain-d.debt(w, offer.Chance, depth) > gain {
				best = Decision{Depth: depth, By: ByModel}
			}
		}
		d.out = append(d.out, best)
	}
}

// modelRow is what a guess by the network costs beside its share of a draft pass.
func (d *decider) modelRow() float64 { return float64(d.costs.Row + d.costs.DraftRow) }

// probed returns the network's offer, or after a long time without guesses one
// that hopes anew, for a single guess.
func probed(w *Writer) Offer {
	o := w.Offers[ByModel]
	if w.Idle >= probeAfter && o.Chance < firstChance {
		return Offer{Most: min(o.Most, 1), Chance: firstChance}
	}
	return o
}

// depth returns how many guesses are worth their cost, and the time they gain.
func (d *decider) depth(o Offer, cost float64) (n int, gain float64) {
	chance := o.Chance
	for n < min(o.Most, DepthMost) && chance*d.worth > cost {
		gain += float64(chance*d.worth) - cost
		chance *= o.Chance
		n++
	}
	return n, gain
}

// debt is what reading all that the draft network is behind costs each of the
// passes that are left.
func (d *decider) debt(w *Writer, chance float64, depth int) float64 {
	if w.Behind <= readFree {
		return 0
	}
	passes := max(1, float64(w.Remaining)/tokens(chance, depth))
	return float64(w.Behind) * float64(d.costs.DraftRow) / passes
}

// tokens returns how many tokens a pass with depth draft tokens is expected to yield.
func tokens(chance float64, depth int) float64 {
	sum, all := 1.0, 1.0
	for range depth {
		all = float64(all * chance)
		sum += all
	}
	return sum
}

// prune takes back the guesses of the draft passes that are not worth their
// fixed cost to the sequences that take part, and returns how many remain. The
// gain of a draft pass falls from each to the next: fewer take part, and their
// chances are smaller.
func (d *decider) prune() (passes int) {
	for passes < DepthMost && d.gain(passes) > float64(d.costs.DraftPass) {
		passes++
	}
	for i := range d.out {
		if d.out[i].By == ByModel {
			d.out[i].Depth = min(d.out[i].Depth, passes)
		}
	}
	return passes
}

// gain returns what another draft pass after passes yields to the sequences that take
// part in it, before the cost of the pass itself.
func (d *decider) gain(passes int) (sum float64) {
	for i, out := range d.out {
		if out.By == ByModel && out.Depth > passes {
			sum += float64(exactmath.Pow(d.chance(i), float64(passes+1))*d.worth) - d.modelRow()
		}
	}
	return sum
}

// chance returns the chance of the guesses decided on for a writer.
func (d *decider) chance(i int) float64 {
	if d.out[i].By == ByModel {
		return probed(&d.writers[i]).Chance
	}
	return d.writers[i].Offers[ByLookup].Chance
}

// timePerToken returns how long a token takes with these guesses.
func (d *decider) timePerToken() float64 {
	took, brings := float64(d.costs.Pass)+d.draftTime(), 0.0
	for i, out := range d.out {
		took += float64(float64(out.Depth) * float64(d.costs.Row))
		brings += tokens(d.chance(i), out.Depth)
	}
	return took / brings
}

// draftTime returns how long the draft network takes.
func (d *decider) draftTime() (sum float64) {
	deepest := 0
	for _, out := range d.out {
		if out.By == ByModel {
			deepest = max(deepest, out.Depth)
			sum += float64(float64(out.Depth+max(0, out.Read-1)) * float64(d.costs.DraftRow))
		}
	}
	return sum + float64(float64(deepest)*float64(d.costs.DraftPass))
}

func (d *decider) abstain() {
	for i := range d.out {
		d.out[i] = Decision{}
	}
}

// try lets one writer guess nevertheless, if there is time to spare: one for
// whom it costs least. A lookup is tried only where there is no draft network:
// its acceptance is known without.
func (d *decider) try() {
	by, best, least := ByLookup, -1, float64(d.costs.Spare)
	if d.sharers() > 0 {
		by = ByModel
	}
	for i := range d.writers {
		w := &d.writers[i]
		cost := trialDepth * float64(d.costs.Row)
		if by == ByModel {
			cost += float64(trialDepth*float64(d.costs.DraftPass)) +
				float64(float64(trialDepth-1+w.Behind)*float64(d.costs.DraftRow))
		}
		if w.Offers[by].Most > 0 && cost < least {
			best, least = i, cost
		}
	}
	if best >= 0 {
		d.out[best] = Decision{Depth: min(trialDepth, d.writers[best].Offers[by].Most), By: by, Trial: true}
	}
}

// read says how much the draft network reads for those it guesses for. Those
// it cannot catch up with in the room there is get no guesses yet.
func (d *decider) read() {
	row := max(1, float64(d.costs.DraftRow))
	room := max(float64(d.costs.Room), readFree*row)
	for i := range d.out {
		out, behind := &d.out[i], d.writers[i].Behind
		if out.By != ByModel || out.Depth == 0 {
			continue
		}
		out.Read = behind
		if behind <= readFree {
			continue
		}
		fits := int(min(float64(behind), room/row))
		room -= float64(float64(fits) * row)
		if out.Read = fits; fits < behind {
			out.Depth = 0
		}
	}
}
