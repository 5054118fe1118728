package sim

import (
	"time"

	"parley"
	"parley/engine/sched"
	"parley/route"
	"parley/sim/cost"
)

// A transfer brings blocks of a prompt to the worker that a request was sent to. The request
// waits there until they have come, and computes what has not come in time.
type transfer struct {
	station  *station
	request  *request
	from, to *worker
	intake   *sched.Intake
	// leg has the prompt computed at the worker that the blocks come from; nil if it has them.
	leg *request
	// most is how many leading blocks are there when all have come; sent and came are how
	// many of them have left the one worker and have reached the other.
	most, sent, came int
	begun            time.Duration
	over             bool
}

// exchange decides where the blocks of a request come from that its worker lacks, and where
// its prompt is computed, if that is elsewhere. It reports whether there is such a worker.
func (t *station) exchange(r *request, d *route.Decision, now time.Time) (first route.Decision, elsewhere bool) {
	if t.Prefill == nil {
		return first, false
	}
	t.router.Fetch(&r.query, d, now)
	if r.written > 0 {
		return first, false
	}
	return t.router.Prefill(&r.query, d, now)
}

// fetch sends a request to a worker that fetches blocks first.
func (t *station) fetch(r *request, to *worker, first route.Decision, elsewhere bool) {
	now := t.clock.time()
	x := &transfer{
		station: t,
		request: r,
		from:    t.byID[r.decision.Fetch.From],
		to:      to,
		begun:   t.clock.now,
	}
	t.router.Fetching(&r.decision)
	to.await(r, x)
	x.most = min(r.decision.Fetch.Tokens, len(r.seq.Tokens)-1) / blockTokens // the last token is computed in any case
	if x.intake = to.plans.OpenIntake(&r.seq, x.most, now); x.intake == nil {
		x.end()
		return
	}
	x.sent = x.most - len(x.intake.Missing())
	x.came = x.sent
	t.clock.after(r.decision.Fetch.Within, x.end)
	if !elsewhere {
		x.send(x.most)
		return
	}
	query := r.query
	query.OutputTokens = 1
	t.router.Sent(&query, &first, now)
	x.leg = r.promptLeg(x, first)
	x.from.take(x.leg)
}

// promptLeg returns a request that has the prompt of r computed and nothing else.
func (r *request) promptLeg(x *transfer, d route.Decision) *request {
	leg := &request{script: r.script, times: r.times, decision: d, transfer: x}
	leg.entry.Class, leg.entry.Tenant = r.entry.Class, r.entry.Tenant
	leg.prepare(r.seq.Objective, r.times.came+r.seq.Waited)
	leg.length, leg.seq.Most = 1, r.prompt+1
	return leg
}

// isLeg reports whether the request has a prompt computed for another one.
func (r *request) isLeg() bool { return r.transfer != nil && r.transfer.leg == r }

// send lets blocks leave, up to a number of them. They take their turn on the ways of both
// workers.
func (x *transfer) send(upTo int) {
	n := min(upTo, x.most) - x.sent
	if n <= 0 || x.over {
		return
	}
	x.sent += n
	clock := x.station.clock
	begins := max(clock.now, x.from.link, x.to.link)
	ends := begins + x.station.link.Time(float64(n*x.station.blockBytes))
	x.from.link, x.to.link = ends, ends
	clock.after(ends-clock.now, func() { x.arrive(n) })
}

// arrive puts blocks into the cache of the worker that they were sent to.
func (x *transfer) arrive(n int) {
	if x.over {
		return
	}
	if x.from.lost {
		x.end()
		return
	}
	now := x.station.clock.time()
	for range n {
		if _, _, ok := x.to.plans.Place(x.intake, now); !ok {
			break
		}
		x.to.plans.Placed(x.intake, now)
		x.came++
	}
	if x.came == x.most || !x.intake.Open() {
		x.end()
	}
}

// end lets the request begin with what has come.
func (x *transfer) end() {
	if x.cancel() && x.to.phase != gone {
		x.to.joins(x.request)
	}
}

// cancel ends the transfer, and the computing of the prompt elsewhere. It reports false if
// both have ended before.
func (x *transfer) cancel() bool {
	if x.over {
		return false
	}
	x.over = true
	t := x.station
	now := t.clock.time()
	x.request.transfer = nil
	if x.intake != nil && x.to.phase != gone {
		x.to.plans.CloseIntake(x.intake, now)
	}
	bytes, took := int64(x.came*t.blockBytes), t.clock.now-x.begun
	if x.leg != nil { // it waited for the prompt, so nothing is known of the way
		took = 0
		x.request.promptCached = x.leg.seq.Cached.HitTokens
		x.request.promptElsewhere = true
		if w := x.leg.seat.worker; w != nil {
			w.giveUp(x.leg)
		}
	}
	t.router.Fetched(&x.request.decision, bytes, took, false, now)
	return true
}

// hitTokens returns how much of the prompt was cached when the request came, by whichever
// worker computed it.
func (r *request) hitTokens() int {
	if r.promptElsewhere {
		return min(r.promptCached, r.seq.Cached.HitTokens)
	}
	return r.seq.Cached.HitTokens
}

// exchanges returns what a worker says about moving its blocks.
func (w *worker) exchanges() route.BlockExchange {
	if w.blockBytes == 0 {
		return route.BlockExchange{}
	}
	return route.BlockExchange{Format: "blocks", BlockBytes: w.blockBytes, Gives: w.up(), PrefillRate: w.prefillRate}
}

// prefillRateOf returns how many tokens of prompts a worker computes in a second.
func prefillRateOf(m *cost.Model, rows int) float64 {
	took, _ := m.Time(cost.Pass{}.Add(rows, 0))
	return float64(rows) / took.Seconds()
}

// role returns what the workers of a pool do that are not for prompts.
func (p *PoolSpec) role() parley.WorkerRole {
	if p.Prefill == nil {
		return ""
	}
	return parley.RoleDecode
}
