package sim

import (
	"time"

	"parley/engine/sched"
)

// A transfer brings blocks of a prompt to the worker that a request was sent to. The request
// waits there until they have come, and computes what has not come in time.
type transfer struct {
	request  *request
	from, to *worker
	intake   *sched.Intake
	// attempt computes the prompt at the worker that the blocks come from; nil if that worker has
	// them cached.
	attempt *request
	// most is how many leading blocks are there when all have come; sent and came are how
	// many of them have left the one worker and have reached the other.
	most, sent, came int
	begun            time.Duration
	over             bool
}

// send lets blocks leave, up to a number of them. They take their turn on the ways of both
// workers.
func (x *transfer) send(upTo int) {
	n := min(upTo, x.most) - x.sent
	if n <= 0 || x.over {
		return
	}
	x.sent += n
	clock := x.to.clock
	begins := max(clock.now, x.from.link, x.to.link)
	ends := begins + x.to.exchange.network.Time(float64(n*x.to.exchange.BlockBytes))
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
	now := x.to.clock.time()
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
	now := x.to.clock.time()
	x.request.blocks.transfer = nil
	if x.intake != nil && x.to.phase != gone {
		x.to.plans.CloseIntake(x.intake, now)
	}
	bytes, took := int64(x.came*x.to.exchange.BlockBytes), x.to.clock.now-x.begun
	if x.attempt != nil { // the wait includes computing the prompt: it does not measure the network
		took = 0
		x.request.blocks.cached, x.request.blocks.elsewhere = x.attempt.seq.Cached.HitTokens, true
		if w := x.attempt.placement.worker; w != nil {
			w.giveUp(x.attempt)
		}
	}
	x.to.router.Fetched(&x.request.decision, bytes, took, false, now)
	return true
}
