package engine

import (
	"fmt"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/sample"
	"parley/engine/sched"
)

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
	if l.cfg.Ahead == nil || l.cfg.Speculate && l.inFlight.flown >= flownMost {
		return false
	}
	for _, p := range plan.Parts {
		if p.Draft > 0 || !l.owner[p.Seq].mayFly() {
			return false
		}
	}
	return true
}

// mayFly reports whether the device can choose the next token of the choice, and nothing
// else is wanted of its scores.
func (c *choice) mayFly() bool {
	r := c.job.req
	if r.Embed || r.SinkTokens > 0 || r.TopLogprobs > compute.DrawTopMost {
		return false
	}
	if r.Logprobs && c.completes() {
		return false // the token may be another than the device chose
	}
	return c.job.begun || !r.Progress && !r.PromptLogprobs && len(c.job.choices) == 1 && len(r.Resume) == 0
}

// draw returns how the device chooses the next token of the choice.
func (c *choice) draw() compute.Draw {
	d, r := c.sampler.Draw(c.seq.Coming), c.job.req
	if c.seq.Coming > 0 && d.Adjust.Counts() {
		d.Adjust.Coming = c.output + 1
	}
	d.Logprobs, d.TopLogprobs = r.Logprobs, r.TopLogprobs
	if c.matcher != nil {
		d.Mask = c.matcher.Mask().Words()
	}
	if c.completes() {
		if tokens, by := c.steer(); by > 0 {
			c.sampler.Steer(&d, tokens, by)
		}
	}
	return d
}

// launch starts the plan's step.
func (l *loop) launch(plan *sched.Plan) {
	f := &flight{began: l.cfg.Now(), behind: len(l.inFlight.flights) > 0}
	l.assemble(plan.Parts, f.began)
	f.pass = l.passOf(plan.Work, f.began)
	if err := l.buffers.step.Validate(l.cfg.Sched.Blocks); err != nil {
		panic(err)
	}
	if f.behind {
		f.exposed = l.sinceEnded(f.began)
	} else {
		l.expose(f.began)
	}
	draws := make([]compute.Draw, 0, len(l.buffers.step.Outputs))
	for _, p := range plan.Parts {
		part := flightPart{l.owner[p.Seq], -1}
		if p.Outputs > 0 {
			part.output = len(draws)
			draws = append(draws, part.c.draw())
			f.awaited = f.awaited || part.c.matcher != nil
		}
		f.parts = append(f.parts, part)
	}
	l.cfg.Ahead.Launch(&l.buffers.step, draws)
	l.inFlight.flights = append(l.inFlight.flights, f)
	l.inFlight.flown++
	l.sched.Advance(plan)
	for _, p := range f.parts {
		if p.output >= 0 {
			p.c.output = p.output
			p.c.seq.Expect()
		}
	}
}

// landDue lands steps until the next one can be planned: all but one, and that too if
// what comes after its tokens depends on them.
func (l *loop) landDue() {
	for n := len(l.inFlight.flights); n > 1 || n == 1 && l.inFlight.flights[0].awaited; n-- {
		l.land()
	}
}

// land takes in what the oldest step in flight has chosen, if there is one. Choices
// that ended since it was launched are passed over.
func (l *loop) land() {
	if len(l.inFlight.flights) == 0 {
		return
	}
	f, asked := l.inFlight.flights[0], l.cfg.Now()
	chosen := l.cfg.Ahead.Wait()
	l.inFlight.flights = append(l.inFlight.flights[:0], l.inFlight.flights[1:]...)
	l.now = l.cfg.Now()
	began := f.began
	if f.behind { // the device goes from one to the next
		f.pass.Gap = 0
		if l.inFlight.ended.After(began) {
			began = l.inFlight.ended
		}
	}
	f.pass.Took = l.now.Sub(began)
	l.inFlight.ended = l.now
	l.sched.Learn(f.pass.Work, f.pass.Took)
	l.count(f.pass)
	l.flew(f, l.now.Sub(asked))
	for _, p := range f.parts {
		if l.owner[&p.c.seq] == p.c && p.output >= 0 {
			l.arrive(p.c, &chosen[p.output])
		}
	}
}

// arrive takes in the choice's next token. Places of tokens that come after it stay.
func (l *loop) arrive(c *choice, chosen *compute.DrawResult) {
	j, tok := c.job, chosen.Token
	coming := c.seq.Unexpect()
	if tok < 0 {
		l.fail(j, fmt.Errorf("engine: %w", sample.ErrNoToken))
		return
	}
	if !j.begun {
		j.begun, j.times.first = true, l.now
	}
	if c.completes() {
		tok = c.inTime(tok)
	}
	var logprobs []parley.Logprob
	if j.req.Logprobs {
		logprobs = []parley.Logprob{sample.LogprobOf(chosen, j.req.TopLogprobs)}
	}
	if !l.say(c, tok, logprobs) {
		return
	}
	for range coming - 1 {
		c.seq.Expect()
	}
}

// crash fails the requests of the steps in flight.
func (l *loop) crash(err error) {
	for _, f := range l.inFlight.flights {
		for _, p := range f.parts {
			if l.owner[&p.c.seq] == p.c {
				l.fail(p.c.job, err)
			}
		}
	}
	l.discard()
}

// discard waits for the steps in flight and forgets them.
func (l *loop) discard() {
	defer func() { _ = recover() }() // a device that failed has nothing to wait for
	n := len(l.inFlight.flights)
	l.inFlight.flights = nil
	for range n {
		l.cfg.Ahead.Wait()
	}
}

// expose counts the time since the last pass in which the device had nothing to do.
func (l *loop) expose(began time.Time) {
	l.stats.landed(false, l.sinceEnded(began))
}

// sinceEnded is how long before began the last pass ended; 0 if none has since the engine was idle.
func (l *loop) sinceEnded(began time.Time) time.Duration {
	if l.inFlight.ended.IsZero() {
		return 0
	}
	return began.Sub(l.inFlight.ended)
}

// flew counts a step that landed: where the host did not wait for it, the device may
// have waited for the host.
func (l *loop) flew(f *flight, waited time.Duration) {
	exposed := time.Duration(0)
	if waited < waitedShort {
		exposed = f.exposed
	}
	l.stats.landed(f.behind, exposed)
}
