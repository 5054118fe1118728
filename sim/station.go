package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/fleet/scale"
	"parley/limit"
	"parley/queue"
	"parley/route"
	"parley/route/kvindex"
	"parley/sim/cost"
)

// probeEvery is how often workers are asked how they are, and pools are looked at.
const probeEvery = time.Second

// A station is a pool at work: workers, the queue before them and the router between.
type station struct {
	*PoolSpec
	kind
	prompts   kind // of the workers for prompts, if there are any
	objective parley.SLO
	price     float64 // of a worker, for an hour
	queue     *queue.Queue
	workers   []*worker
	byID      map[route.ID]*worker // those that the router knows
	numbers   int
	turn      int // of round robin
	// parked are requests whose turn has come and for which no worker has room.
	parked         []*request
	arrived, begun uint64
	scaled         []*scaledKind
	answers        limit.Estimate // of their lengths
	err            error
}

// A sizer says how many workers there should be.
type sizer interface {
	Plan(state scale.State, now time.Time) scale.Sizing
}

// A scaledKind is the workers of one kind, whose number follows the load.
type scaledKind struct {
	*kind
	spec       *ScaleSpec
	scaler     sizer
	arithmetic time.Duration // of its workers, when the scaler last looked
	before     uint64        // requests that had come when the scenario began
}

func newStation(p *PoolSpec, seed uint64, m *meter) (*station, error) {
	if n := p.Workers + p.prefill().Workers; n > kvindex.WorkersMax {
		return nil, fmt.Errorf("pool %s has %d workers, and one router takes %d: simulate a part of it "+
			"(parley sim shard)", p.Name, n, kvindex.WorkersMax)
	}
	machine, err1 := p.machine()
	shares, err2 := p.reserve()
	config, err3 := p.queueConfig()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	t := &station{
		PoolSpec:  p,
		price:     machine.price,
		objective: parley.SLO{TTFT: m.ttft, TPOT: m.tpot},
		byID:      map[route.ID]*worker{},
	}
	var err error
	if t.queue, err = queue.New(config); err != nil {
		return nil, err
	}
	t.kind = kind{
		name:       p.Name,
		clock:      m.clock,
		meter:      m,
		cost:       machine.cost,
		mechanisms: mechanisms{p.HostCopy, p.Speculation},
		role:       p.role(),
		wrote:      t.wrote,
		left:       t.remove,
		sched: sched.Config{
			Blocks:      machine.blocks,
			StepTokens:  p.StepTokens,
			StepOutputs: p.StepTokens,
			Seqs:        p.Seqs,
			Target:      p.Target,
			Reserve:     shares,
			Baseline:    sched.Baseline{NoPrefixCache: p.NoCache},
			Cache: kv.Config{
				HostBlocks: p.HostBlocks,
				Ghosts:     p.Ghosts,
				Events:     eventsKept,
				NoTokens:   true,
				Seed:       seed,
			},
		},
	}
	if t.router, err = route.New(route.Config{Seed: seed}); err != nil {
		return nil, err
	}
	if p.Prefill != nil {
		t.exchange = exchange{route.BlockExchange{
			Format:     "blocks",
			BlockBytes: machine.blockBytes,
		}, cost.Bandwidth(p.Network)}
		t.prompts = t.kind
		t.prompts.name, t.prompts.role = p.Name+"-prefill", parley.RolePrefill
		t.prompts.sched.Target = 0 // no answer is written there that long passes would delay
		err = t.addCrew(&t.prompts, p.Prefill.Scale)
	}
	return t, errors.Join(err, t.addCrew(&t.kind, p.Scale))
}

// addCrew lets the number of workers of a kind follow the load, if spec is not nil.
func (t *station) addCrew(k *kind, spec *ScaleSpec) error {
	if spec == nil {
		return nil
	}
	scaler, err := scale.New(spec.config(t.ColdStart, t.price))
	t.scaled = append(t.scaled, &scaledKind{kind: k, spec: spec, scaler: scaler})
	return err
}

// fail ends the run: the simulator itself is wrong.
func (t *station) fail(err error) { t.err = errors.Join(t.err, err) }

// start begins a worker of a kind that is ready after a time.
func (t *station) start(k *kind, in time.Duration) {
	w, err := newWorker(k, t.numbers)
	if err != nil {
		t.fail(err)
		return
	}
	t.numbers++
	t.workers = append(t.workers, w)
	t.clock.after(in, func() {
		if w.phase != starting {
			return
		}
		if err := w.join(); err != nil {
			t.fail(err)
		}
		t.byID[w.id] = w
		t.dispatch()
	})
}

// remove takes a worker out that has nothing to do any more.
func (t *station) remove(w *worker) {
	if w.up() {
		t.router.Leave(w.id)
		delete(t.byID, w.id)
	}
	w.phase = gone
	t.workers = slices.DeleteFunc(t.workers, func(x *worker) bool { return x == w })
}

// lose takes workers out at once, the first ones, and returns how many. Their requests
// continue elsewhere.
func (t *station) lose(n int) (lost int) {
	var interrupted []*request
	for _, w := range slices.Clone(t.workers) {
		if lost < n && w.phase == ready {
			t.remove(w)
			interrupted = append(interrupted, w.lose()...)
			lost++
		}
	}
	for _, r := range interrupted {
		if r.isPromptAttempt() {
			r.blocks.transfer.end() // its request computes the prompt itself
			continue
		}
		if r.blocks.transfer != nil {
			r.blocks.transfer.cancel()
		}
		t.meter.each(r.tally, func(t *tally) { t.moved++ })
		t.send(r)
	}
	return lost
}

// probe looks at the pool, once a second.
func (t *station) probe() {
	for _, w := range t.workers {
		if w.up() {
			w.report()
		}
	}
	t.dispatch()
	t.sample()
	t.clock.after(probeEvery, t.probe)
}

// sample adds what is seen of the workers to the present window.
func (t *station) sample() {
	g := &t.meter.window().gauge
	var blocks, used int
	for _, w := range t.workers {
		g.replicas++
		g.dollars += float64(t.price * probeEvery.Hours())
		if !w.up() {
			continue
		}
		g.ready++
		use := w.plans.Use()
		blocks, used = blocks+use.Total, used+use.InUse
		g.running += w.plans.Running()
		g.kvMost = max(g.kvMost, float64(use.InUse)/float64(use.Total))
	}
	if blocks > 0 {
		g.kv += float64(used) / float64(blocks)
	}
	g.queued += t.queue.Len() + len(t.parked)
	g.samples++
}

func (t *station) ready() (n int) {
	for _, w := range t.workers {
		if w.phase == ready {
			n++
		}
	}
	return n
}

// fits reports whether a worker could ever hold a request.
func (t *station) fits(r *request) bool {
	r.prepare(0, 0)
	r.seq.Owner = nil
	return t.sched.Fit(&r.seq)
}

// arrive lets a request come. Its text, tenant, class and client are known.
func (t *station) arrive(r *request) {
	t.arrived++
	now := t.clock.time()
	r.prompts = [...]route.Prompt{{BlockTokens: blockTokens, Keys: r.keys}}
	r.query = route.Request{PromptTokens: r.prompt, OutputTokens: r.most, Prompts: r.prompts[:]}
	if t.OneTier {
		r.entry.Class = parley.Free
	}
	e := &r.entry
	e.Prompt, e.MaxOutput, e.Objective, e.Owner = r.prompt, r.most, t.objective, r
	e.Cached, e.CachedKnown = t.router.Cached(&r.query, now)
	if t.NoQueue {
		r.times.sent = t.clock.now
		t.send(r)
		return
	}
	verdict := t.queue.Push(e, now)
	if verdict.Refused != "" {
		t.reject(e, verdict.Retry)
		return
	}
	if d := verdict.Displaced; d != nil {
		t.reject(d, t.queue.Retry(d, 0))
	}
	t.dispatch()
}

func (t *station) reject(e *queue.Entry, retry time.Duration) {
	r := e.Owner.(*request)
	t.meter.each(r.tally, func(t *tally) { t.rejected++ })
	r.told(r, rejected, retry)
}

// dispatch sends every request that may go to a worker.
func (t *station) dispatch() {
	now := t.clock.time()
	if len(t.parked) > 0 {
		t.sendParked()
	}
	if t.NoQueue {
		return
	}
	t.queue.Workers(t.ready())
	for e := t.queue.Expire(now); e != nil; e = t.queue.Expire(now) {
		t.reject(e, t.queue.Retry(e, 0))
	}
	for e := t.queue.Trim(now); e != nil; e = t.queue.Trim(now) {
		t.reject(e, t.queue.Retry(e, 0))
	}
	for e := t.queue.Next(now); e != nil; e = t.queue.Next(now) {
		r := e.Owner.(*request)
		r.times.sent = t.clock.now
		t.send(r)
	}
}

// sendParked tries again to send what no worker had room for, the oldest first.
func (t *station) sendParked() {
	sent := 0
	for sent < len(t.parked) && t.offer(t.parked[sent]) {
		sent++
	}
	t.parked = slices.Delete(t.parked, 0, sent)
}

// send gives a request to a worker, or lets it wait for one that has room.
func (t *station) send(r *request) {
	if len(t.parked) > 0 || !t.offer(r) {
		t.parked = append(t.parked, r)
	}
}

// offer gives a request to the worker that the router picks; it reports whether there
// is one.
func (t *station) offer(r *request) bool {
	now := t.clock.time()
	d, err := t.router.Pick(&r.query, now)
	if err != nil {
		return false
	}
	if t.RoundRobin {
		d = t.inTurn(d)
	}
	first, elsewhere := t.source(r, &d, now)
	t.router.Sent(&r.query, &d, now)
	r.decision = d
	w := t.byID[d.Worker]
	if w == nil || w.phase != ready {
		t.fail(errors.New("the router picked a worker that is not there"))
		return true
	}
	r.prepare(t.objective.TTFT, t.clock.now)
	if d.Fetch != nil {
		t.fetch(r, w, first, elsewhere)
		return true
	}
	w.take(r)
	return true
}

// source decides where the blocks of a request come from that its worker lacks, and where
// its prompt is computed, if that is elsewhere. It reports whether there is such a worker.
func (t *station) source(r *request, d *route.Decision, now time.Time) (first route.Decision, elsewhere bool) {
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
	x.attempt = r.promptAttempt(x, first)
	x.from.take(x.attempt)
}

// inTurn replaces a decision by the next worker in turn.
func (t *station) inTurn(d route.Decision) route.Decision {
	for range t.workers {
		t.turn++
		if w := t.workers[t.turn%len(t.workers)]; w.phase == ready {
			return route.Decision{Worker: w.id, Uncached: d.Cached + d.Uncached}
		}
	}
	return d
}

// drop takes a request whose client has gone from wherever it is.
func (t *station) drop(r *request) {
	if i := slices.Index(t.parked, r); i >= 0 {
		t.parked = slices.Delete(t.parked, i, i+1)
	}
	if w := r.placement.worker; w != nil {
		w.giveUp(r)
	}
	t.queue.Cancel(&r.entry, t.clock.time())
	t.dispatch()
}

// wrote takes in that a worker has written a token of a request.
func (t *station) wrote(r *request) {
	if r.isPromptAttempt() {
		r.placement.worker.finish(r)
		return
	}
	now := t.clock.time()
	begins := r.times.first == 0
	if !begins {
		t.meter.gap(t.clock.now - r.times.last)
	}
	last := r.write(t.clock.now)
	if r.payment != nil && !last && !r.payment.grow(r.written) {
		last = true
		t.meter.each(r.tally, func(t *tally) { t.truncated++ })
	}
	if begins {
		t.begun++
		t.meter.began(r.tally, &r.times, r.prompt, r.hitTokens(), r.seq.Waits)
	}
	if !t.NoQueue {
		if begins {
			t.queue.Started(&r.entry, now)
		}
		t.queue.Served(&r.entry, 1, now)
	}
	if last {
		t.meter.ended(r.tally, &r.times, r.written)
		r.placement.worker.finish(r)
		t.queue.Finish(&r.entry, r.prompt-r.hitTokens(), r.written, now)
		r.told(r, finished, 0)
	}
	if begins || last {
		t.dispatch()
	}
}
