package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/spec"
	"parley/route"
	"parley/route/kvindex"
	"parley/sim/cost"
)

const blockTokens = kv.BlockTokens

// eventsKept is how many changes of its cache a worker can report at once: more than
// one pass makes.
const eventsKept = 1 << 12

// A phase is where a worker is in its life.
type phase uint8

const (
	starting phase = iota
	ready
	draining
	gone
)

// A kind is what all workers of a pool have in common.
type kind struct {
	name   string
	clock  *clock
	meter  *meter
	router *route.Router
	sched  sched.Config
	cost   *cost.Model
	mechanisms
	role     parley.WorkerRole
	exchange exchange
	// arithmetic is the time that all workers have done operations on rows.
	arithmetic time.Duration
	// wrote is called for each token, and left when a worker that drains has no
	// request any more.
	wrote func(r *request)
	left  func(w *worker)
}

// mechanisms are of a worker itself: how long it copies a block to its host, and how it guesses tokens ahead, nil if it
// does not.
type mechanisms struct {
	hostCopy    time.Duration
	speculation *SpeculationSpec
}

// An exchange is how blocks are moved to other workers, the zero value if they are not.
type exchange struct {
	route.BlockExchange
	network cost.Bandwidth
}

// A worker is a scheduler and the passes that it plans.
type worker struct {
	*kind
	number   int
	phase    phase
	lost     bool // gone at once, with all that it was about to send
	id       route.ID
	plans    *sched.Scheduler
	requests requests
	pass     pass
	reported changes
	end      func()        // of the present pass
	link     time.Duration // when all that is sent or received has come
	read     int           // has no meaning: with it, reading ahead is not left out by the compiler
}

// requests are those that a worker was sent and that have not ended. joining and
// leaving are those that the scheduler learns of before the next pass.
type requests struct {
	present, joining, leaving []*request
	// unbegun are prompt tokens of requests without a first token.
	unbegun int
	// promptAttempts is how many of those present compute a prompt for another request.
	promptAttempts int
}

// A pass is one that is being computed; its plan is nil if none is. The draws are how long passes take.
type pass struct {
	plan      *sched.Plan
	took      time.Duration
	limit     cost.Limit
	preempted uint64 // so far
	draws     *cost.Draws
	guesses   guesses
}

// changes of the cache are reported up to one of them, batch by batch.
type changes struct {
	seq   uint64
	batch kvindex.Batch
	keys  []parley.BlockKey
}

// newWorker returns a worker that starts.
func newWorker(k *kind, number int) (*worker, error) {
	w := &worker{kind: k, number: number}
	w.pass.draws = k.cost.Draws(k.sched.Cache.Seed, uint64(number))
	w.end = w.endPass
	w.pass.guesses.rng = rand.New(rand.NewPCG(k.sched.Cache.Seed, guessStream+uint64(number)))
	var err error
	w.plans, err = sched.New(k.sched)
	return w, err
}

// join makes the worker routable.
func (w *worker) join() (err error) {
	w.id, err = w.router.Join(route.Member{
		Name:           fmt.Sprint(w.name, "-", w.number),
		BlockTokens:    blockTokens,
		CapacityTokens: w.sched.Blocks * blockTokens,
		Source:         kvindex.Source{Events: true},
	})
	if err != nil {
		return err
	}
	rows := w.sched.StepTokens
	took, _ := w.cost.Time(cost.Pass{}.Add(rows, 0))
	w.router.Prefilled(w.id, 0, rows, took)
	w.phase = ready
	w.report()
	return nil
}

// up reports whether the worker computes.
func (w *worker) up() bool { return w.phase == ready || w.phase == draining }

// report gives the router how the worker is.
func (w *worker) report() {
	exchange := w.exchange.BlockExchange
	exchange.Gives = w.up()
	w.router.Report(w.id, route.Status{
		Ready:         w.phase == ready,
		UsedTokens:    w.plans.Use().InUse * blockTokens,
		WaitingTokens: w.requests.unbegun,
		Running:       w.plans.Running(),
		Role:          w.role,
		Exchange:      exchange,
	})
}

// lose ends the worker at once and returns the requests that it had.
func (w *worker) lose() []*request {
	present := w.requests.present
	for _, r := range present {
		r.placement = placement{}
	}
	w.phase, w.lost, w.pass.plan, w.requests = gone, true, nil, requests{}
	return present
}

// take gives the worker a request.
func (w *worker) take(r *request) {
	w.place(r)
	w.joins(r)
}

// await gives the worker a request that joins when a transfer has ended.
func (w *worker) await(r *request, x *transfer) {
	w.place(r)
	r.blocks.transfer = x
}

func (w *worker) place(r *request) {
	g := &w.requests
	r.placement, r.acceptance = placement{worker: w, index: len(g.present), reading: true}, spec.Acceptance{}
	g.present = append(g.present, r)
	g.unbegun += r.decision.Uncached
	if r.isPromptAttempt() {
		g.promptAttempts++
	}
}

// joins lets a request of the worker compute from the next pass on.
func (w *worker) joins(r *request) {
	w.requests.joining = append(w.requests.joining, r)
	if w.pass.plan == nil {
		w.round()
	}
}

// release takes a request off the worker, which has ended or was given up.
func (w *worker) release(r *request) {
	w.begins(r)
	w.router.Done(&r.decision)
	g := &w.requests
	last := len(g.present) - 1
	g.present[r.placement.index] = g.present[last]
	g.present[r.placement.index].placement.index = r.placement.index
	g.present = g.present[:last]
	r.placement = placement{}
	if r.isPromptAttempt() {
		g.promptAttempts--
	}
}

// giveUp takes a request off the worker whose client has gone. The scheduler learns of it
// before the next pass.
func (w *worker) giveUp(r *request) {
	w.release(r)
	g := &w.requests
	if x := r.blocks.transfer; x != nil && x.request == r { // the scheduler does not know it
		x.cancel()
		return
	}
	if i := slices.Index(g.joining, r); i >= 0 {
		g.joining = slices.Delete(g.joining, i, i+1)
		return
	}
	g.leaving = append(g.leaving, r)
}

// finish takes a request off the worker that is answered.
func (w *worker) finish(r *request) {
	w.plans.Remove(&r.seq, w.clock.time())
	w.release(r)
}

// begins notes that the prompt of a request was computed, or will not be.
func (w *worker) begins(r *request) {
	if r.placement.reading {
		r.placement.reading = false
		w.requests.unbegun -= r.decision.Uncached
		w.router.Computed(&r.decision)
	}
}

// round begins a pass, if there is something to compute.
func (w *worker) round() {
	now := w.clock.time()
	g := &w.requests
	for _, r := range g.joining {
		w.plans.Add(&r.seq, epoch.Add(r.times.sent))
	}
	for _, r := range g.leaving {
		w.plans.Remove(&r.seq, now)
	}
	clear(g.leaving)
	g.joining, g.leaving = g.joining[:0], g.leaving[:0]
	w.reportBlocks()
	draft := w.guess()
	plan := w.plans.Next(now)
	var work cost.Pass
	for i := range plan.Parts {
		work = work.Add(plan.Parts[i].Tokens, plan.Parts[i].Seq.Computed)
	}
	w.pass.plan = nil
	if work.Rows+len(plan.Copies) == 0 {
		return
	}
	w.pass.plan, w.pass.took, w.pass.limit = plan, 0, cost.Memory
	if work.Rows > 0 {
		w.pass.took, w.pass.limit = w.pass.draws.Time(work)
		w.arithmetic += w.cost.Arithmetic(work)
	}
	w.clock.after(w.pass.took+w.copy(plan)+draft, w.end)
}

// copy returns how long the copies of a plan take.
func (w *worker) copy(plan *sched.Plan) (all time.Duration) {
	for i := range plan.Copies {
		if m := &plan.Copies[i]; m.From != m.To {
			w.plans.Copied(m.From, m.To, 1, w.hostCopy)
			all += w.hostCopy
		}
	}
	return all
}

// endPass delivers what a pass computed and begins the next one.
func (w *worker) endPass() {
	if w.phase == gone {
		return
	}
	plan := w.pass.plan
	for i := range plan.Parts { // so that the processor waits for the memory of all requests at once
		r := plan.Parts[i].Seq.Owner.(*request)
		w.read += r.written + int(r.times.first) + int(r.entry.Class) + r.seq.Computed + r.seq.Table.Sealed()
	}
	if len(plan.Parts) > 0 {
		w.plans.Commit(plan, w.pass.took)
		preempted := w.plans.Preempted()
		w.meter.passed(w.pass.took, w.pass.limit, preempted-w.pass.preempted)
		w.pass.preempted = preempted
	}
	if w.requests.promptAttempts > 0 {
		w.sendBlocks(plan)
	}
	for i := range plan.Parts {
		r := plan.Parts[i].Seq.Owner.(*request)
		if r.placement.worker == w && r.seq.Computed >= len(r.seq.Tokens) {
			w.begins(r)
			w.deliver(r, plan.Parts[i].Draft)
		}
	}
	w.round()
	if w.phase == draining && len(w.requests.present) == 0 {
		w.left(w)
	}
}

// sendBlocks lets the blocks leave that a pass computed for other workers.
func (w *worker) sendBlocks(plan *sched.Plan) {
	for i := range plan.Parts {
		if r := plan.Parts[i].Seq.Owner.(*request); r.isPromptAttempt() && r.placement.worker == w {
			r.blocks.transfer.send(r.seq.Computed / blockTokens)
		}
	}
}

// reportBlocks gives the index what has changed in the cache.
func (w *worker) reportBlocks() {
	c := &w.reported
	if !w.up() || w.plans.Seq() == c.seq {
		return
	}
	events, ok := w.plans.EventsSince(c.seq)
	index, number := w.router.Index(w.id)
	if !ok { // more than are kept: report all that is there
		c.seq = w.restore(index, number)
		return
	}
	c.collect(events, int(w.plans.Seq()-c.seq))
	c.seq = w.plans.Seq()
	index.Apply(number, c.batch)
	c.batch.Seq++
}

// collect makes a batch of a number of events, of which neighbours of a kind are one.
func (c *changes) collect(events func(func(kv.Event) bool), number int) {
	c.batch.Events, c.keys = c.batch.Events[:0], slices.Grow(c.keys[:0], number) // events refer to it
	for e := range events {
		at := len(c.keys)
		c.keys = append(c.keys, e.Hash.Key())
		kind, tier := kvindex.Kind(e.Kind), kvindex.CacheTier(e.Tier)
		if n := len(c.batch.Events); n > 0 && c.batch.Events[n-1].Kind == kind && c.batch.Events[n-1].Tier == tier {
			last := &c.batch.Events[n-1]
			last.Keys = last.Keys[:len(last.Keys)+1]
		} else {
			c.batch.Events = append(c.batch.Events, kvindex.Event{Kind: kind, Tier: tier, Keys: c.keys[at : at+1]})
		}
	}
}

// restore gives the index all that the cache holds, and returns up to which change.
func (w *worker) restore(index *kvindex.Index, number kvindex.Worker) uint64 {
	seq, blocks := w.plans.Snapshot()
	index.Restore(number, w.reported.batch.Seq, func(yield func(kvindex.Event) bool) {
		for e := range blocks {
			key := [1]parley.BlockKey{e.Hash.Key()}
			if !yield(kvindex.Event{Kind: kvindex.Stored, Tier: kvindex.CacheTier(e.Tier), Keys: key[:]}) {
				return
			}
		}
	})
	w.reported.batch.Seq++
	return seq
}
