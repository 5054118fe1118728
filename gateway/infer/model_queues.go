package infer

import (
	"context"
	"iter"
	"slices"
	"time"

	"parley"
	"parley/queue"
)

// A Model is a model as the pipeline serves it: its worker, and the queues in front of
// that. A job keeps the model that it began with.
type Model struct {
	ID     string
	Worker parley.Worker
	queues *modelQueues
}

// Unready says why no worker can begin a request for the model now; nil if one can.
func (m *Model) Unready() error {
	if slices.ContainsFunc(m.queues.of, func(t *poolQueue) bool { return t.ready() > 0 }) {
		return nil
	}
	return m.queues.pools.NoWorkers(&parley.Request{Model: m.ID})
}

// residency says how far a model that its worker loads on demand is in memory.
func (m *Model) residency() parley.Residency {
	if w, ok := m.Worker.(interface{ Residency() parley.Residency }); ok {
		return w.Residency()
	}
	return parley.Residency{}
}

// modelQueues are the queues of one model: one for each pool of workers, so that what
// is asked of one pool holds up no request of another.
type modelQueues struct {
	now func() time.Time
	// pools is nil where there is one worker, and so one queue.
	pools      poolWorker
	workerWait time.Duration
	of         []*poolQueue
}

// open adds the queue of a pool.
func (q *modelQueues) open(config *Admission, m *Model, pool string, counted *admissionMetrics) error {
	inner, err := queue.New(config.Queue)
	if err != nil {
		return err
	}
	t := &poolQueue{
		now:     q.now,
		metrics: &poolMetrics{admissionMetrics: counted},
		queue:   inner,
		model:   newBreaker(config.Breaker),
		worker:  newBreaker(config.Breaker),
		compute: m.Worker,
		served:  m,
		pools:   q.pools,
		pool:    pool,
		number:  len(q.of),
	}
	if q.pools != nil {
		t.compute = q.pools.Pool(pool)
	}
	for class, tier := range config.Queue.Tiers {
		t.impatient[class] = tier.WaitMax > 0 && tier.WaitMax < config.FirstTokenMax
	}
	people := config.Queue.PersonWaitMax
	t.impatientPeople = people > 0 && people < config.FirstTokenMax
	q.of = append(q.of, t)
	return nil
}

// joinBreakers shares the breakers of workers with another model's queues.
func (q *modelQueues) joinBreakers(with *modelQueues) {
	for _, t := range q.of {
		if other := with.named(t.pool); other != nil {
			t.worker = other.worker
		}
	}
}

func (q *modelQueues) named(pool string) *poolQueue {
	i := slices.IndexFunc(q.of, func(t *poolQueue) bool { return t.pool == pool })
	if i < 0 {
		return nil
	}
	return q.of[i]
}

// choose returns the queue in which a request should wait: of the first pool that may
// answer it, has a worker, and is not failing. Nil says that no pool may.
func (q *modelQueues) choose(r *parley.Request, now time.Time) (first *poolQueue) {
	if q.pools == nil {
		return q.of[0]
	}
	names := q.pools.PoolsFor(r)
	for _, name := range names {
		t := q.named(name)
		if len(names) == 1 || t.ready() > 0 && t.retry(now) == 0 {
			return t
		}
		if first == nil {
			first = t
		}
	}
	return first
}

// answer waits to be dispatched, as a person or a program, and then has a worker of the pool
// answer, through wrap.
func (q *modelQueues) answer(person bool, wrap func(parley.Worker) parley.Worker) source {
	return func(ctx context.Context, r *parley.Request) iter.Seq2[*Step, error] {
		return func(yield func(*Step, error) bool) {
			k, err := q.enter(r, person)
			if err != nil {
				yield(&Step{}, err)
				return
			}
			defer k.drop()
			if !k.isWaitOver() && !yield(&Step{ticket: k}, nil) {
				return
			}
			if err := q.wait(ctx, r, k); err != nil {
				yield(&Step{}, err)
				return
			}
			t := k.queue.Load()
			sent := *r
			sent.Waited = k.dispatchedAt.Sub(k.Arrived)
			t.run(ctx, wrap(t.compute), &sent, k, yield)
		}
	}
}

// enter takes a place in a queue, or says why there is none.
func (q *modelQueues) enter(r *parley.Request, person bool) (*ticket, error) {
	now := q.now()
	t := q.choose(r, now)
	if t == nil {
		return nil, q.pools.NoWorkers(r)
	}
	if retry := t.retry(now); retry > 0 && t.ready() > 0 {
		t.turnedAway("breaker", r.Class)
		return nil, &parley.Error{Code: parley.Unavailable, Wait: retry,
			Message: "The model is failing, so your request was not tried. Try again in a while."}
	}
	k := &ticket{waitOver: make(chan struct{})}
	k.queue.Store(t)
	k.Entry = queue.Entry{
		Owner:     k,
		Class:     r.Class,
		Tenant:    r.Tenant,
		Person:    person,
		Prompt:    len(r.Prompt),
		Choices:   max(r.Choices, 1),
		MaxOutput: r.MaxTokens,
		Deadline:  r.Deadline,
		Arrived:   now,
		Objective: r.Objective,
	}
	if q.pools != nil {
		k.Cached, k.CachedKnown = q.pools.Cached(r, t.pool)
	}
	if r.Embed {
		k.MaxOutput = 1
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return k, t.push(k, now)
}

// wait returns when the request is dispatched, or with the reason why it is rejected.
func (q *modelQueues) wait(ctx context.Context, r *parley.Request, k *ticket) error {
	if k.isWaitOver() {
		return k.refused
	}
	tick := time.NewTimer(wakeEvery)
	defer tick.Stop()
	for {
		tick.Reset(min(wakeEvery, max(k.Until().Sub(q.now()), 0)))
		select {
		case <-k.waitOver:
			return k.refused
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			q.look(r, k)
		}
	}
}

// look lets go who may go by now. It moves a ticket whose pool has no worker any more,
// or whose first pool has one again, and ends one for which no worker comes.
func (q *modelQueues) look(r *parley.Request, k *ticket) {
	now := q.now()
	to := q.choose(r, now)
	if from := k.queue.Load(); to != nil && to != from {
		q.move(r, k, from, to, now)
	}
	t := k.lock()
	defer t.mu.Unlock()
	t.dispatch(now)
	switch {
	case t.ready() > 0:
		k.empty = time.Time{}
	case k.empty.IsZero():
		k.empty = now
	case now.Sub(k.empty) >= q.workerWait && k.State() == queue.Waiting:
		t.queue.Withdraw(&k.Entry, now)
		t.turnedAway("no_worker", k.Class)
		k.refused = q.pools.NoWorkers(r)
		close(k.waitOver)
	}
}

// move gives a ticket that waits a place in another queue. It leaves workers that are
// up only for a pool that has nothing waiting.
func (q *modelQueues) move(r *parley.Request, k *ticket, from, to *poolQueue, now time.Time) {
	first, second := from, to
	if first.number > second.number {
		first, second = second, first
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	if k.State() != queue.Waiting || from.ready() > 0 && to.queue.Len() > 0 {
		return
	}
	from.queue.Withdraw(&k.Entry, now)
	k.queue.Store(to)
	k.Cached, k.CachedKnown = q.pools.Cached(r, to.pool)
	if k.refused = to.push(k, now); k.refused != nil {
		close(k.waitOver)
	}
}
