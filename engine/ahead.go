package engine

import (
	"fmt"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/sample"
	"parley/engine/sched"
)

// Ahead are steps whose tokens the device chooses itself, so that the host plans the
// next step while the device computes this one.
//
// The plan of a step that follows one in the air knows everything but which tokens
// that one chooses. What it must not know it does not use: a sequence whose next
// token depends on the last one in any other way than through the network (grammars,
// penalties, guesses) is not launched ahead. What it assumes is that no sequence ends;
// if one does, what the next step computes for it is dropped, and since steps and
// copies happen on the device in the order in which they were asked for, nothing else
// notices. So the tokens are the same as without.
type Ahead struct {
	// Launch starts a step after those launched before, and returns before it is
	// computed. For each output row a token is chosen by the draw of that number. Tokens
	// less than 0 name tokens that the step before chose; see [compute.Chosen].
	Launch func(step *compute.Step, draws []compute.Draw)
	// Wait returns when the oldest step in the air is computed, with the tokens that it
	// chose, -1 where no token has a score. They are valid until the next call.
	Wait func() []parley.Token
}

// A flight is a step in the air.
type flight struct {
	parts   []flightPart
	work    sched.Work
	began   time.Time
	behind  bool // it was launched while another was in the air
	exposed time.Duration
}

// A flightPart is the share of one choice in a flight; output is -1 if no token is
// chosen for it.
type flightPart struct {
	c      *choice
	output int
}

const (
	// flownMost is how many passes are launched before one is computed without, so that
	// it is decided anew whether to guess ahead.
	flownMost = 32
	// waitedShort is below which the device must have been done before the host asked.
	waitedShort = 10 * time.Microsecond
)

// mayFly reports whether the tokens of all sequences of the plan can be chosen on the
// device.
func (l *loop) mayFly(plan *sched.Plan) bool {
	if l.e.cfg.Ahead == nil || l.e.cfg.Speculate && l.flown >= flownMost {
		return false
	}
	for _, p := range plan.Parts {
		if p.Draft > 0 || !l.owner[p.Seq].plain() {
			return false
		}
	}
	return true
}

// plain reports whether the next token of the choice depends on nothing but the
// network and a draw, and nothing else is wanted of its scores.
func (c *choice) plain() bool {
	r := c.job.req
	if r.Logprobs || r.PromptLogprobs || r.Embed || r.Grammar != nil {
		return false
	}
	if len(c.job.choices) > 1 || r.SinkTokens > 0 || len(r.Resume) > 0 {
		return false
	}
	_, plain := c.sampler.Draw(0)
	return plain && (c.job.begun || !r.Progress)
}

// launch starts the plan's step.
func (l *loop) launch(plan *sched.Plan) {
	f := &flight{work: plan.Work, began: l.e.cfg.Now(), behind: len(l.air) > 0}
	l.assemble(plan.Parts, f.began)
	if err := l.step.Validate(l.e.cfg.Sched.Blocks); err != nil {
		panic(err)
	}
	if f.behind {
		f.exposed = f.began.Sub(l.ended)
	} else {
		l.expose(f.began)
	}
	draws := make([]compute.Draw, 0, len(l.step.Outputs))
	for _, p := range plan.Parts {
		part := flightPart{l.owner[p.Seq], -1}
		if p.Outputs > 0 {
			d, _ := part.c.sampler.Draw(p.Seq.Coming)
			part.output = len(draws)
			draws = append(draws, d)
		}
		f.parts = append(f.parts, part)
	}
	l.e.cfg.Ahead.Launch(&l.step, draws)
	l.air = append(l.air, f)
	l.flown++
	l.sched.Advance(plan)
	for _, p := range f.parts {
		if p.output >= 0 {
			p.c.output = p.output
			p.c.seq.Expect()
		}
	}
}

// land takes in what the oldest step in the air has chosen, if there is one. Choices
// that ended since it was launched are passed over.
func (l *loop) land() {
	if len(l.air) == 0 {
		return
	}
	f, asked := l.air[0], l.e.cfg.Now()
	chosen := l.e.cfg.Ahead.Wait()
	l.air = append(l.air[:0], l.air[1:]...)
	l.now = l.e.cfg.Now()
	began := f.began
	if f.behind && l.ended.After(began) {
		began = l.ended
	}
	took := l.now.Sub(began)
	l.ended = l.now
	l.sched.Learn(f.work, took)
	l.count(len(f.parts), f.work.Rows, took)
	l.flew(f, l.now.Sub(asked))
	for _, p := range f.parts {
		if l.owner[&p.c.seq] == p.c && p.output >= 0 {
			l.arrive(p.c, chosen[p.output])
		}
	}
}

// arrive takes in the choice's next token. Places of tokens that come after it stay.
func (l *loop) arrive(c *choice, tok parley.Token) {
	j := c.job
	coming := c.seq.Unexpect()
	if tok < 0 {
		l.fail(j, fmt.Errorf("engine: %w", sample.ErrNoToken))
		return
	}
	if !j.begun {
		j.begun, j.first = true, l.now
	}
	if !l.say(c, tok, nil) {
		return
	}
	for range coming - 1 {
		c.seq.Expect()
	}
}

// crash fails the requests of the steps in the air.
func (l *loop) crash(err error) {
	for _, f := range l.air {
		for _, p := range f.parts {
			if l.owner[&p.c.seq] == p.c {
				l.fail(p.c.job, err)
			}
		}
	}
	l.discard()
}

// discard waits for the steps in the air and forgets them.
func (l *loop) discard() {
	defer func() { _ = recover() }() // a device that failed has nothing to wait for
	n := len(l.air)
	l.air = nil
	for range n {
		l.e.cfg.Ahead.Wait()
	}
}

// expose counts the time since the last pass in which the device had nothing to do.
func (l *loop) expose(began time.Time) {
	if l.ended.IsZero() {
		return
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.stats.Exposed += began.Sub(l.ended)
}

// flew counts a step that landed: where the host did not wait for it, the device may
// have waited for the host.
func (l *loop) flew(f *flight, waited time.Duration) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if f.behind {
		l.e.stats.Ahead++
	}
	if waited < waitedShort {
		l.e.stats.Exposed += f.exposed
	}
}
