package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/queue"
)

// An Admission bounds what may happen to a request until its answer is
// complete. The zero value works. These are the layers that keep the server
// serving when more is asked of it than it can do; docs/overload.md says how
// they work together.
type Admission struct {
	// Queue bounds waiting, for each model and pool of workers.
	Queue queue.Config
	// Breaker says when work is kept from a worker or a model that fails.
	Breaker queue.BreakerConfig
	// FirstTokenMax bounds the whole wait for the first token, the queue
	// included; default 60 s. AnswerMax bounds the whole answer; default 15 min.
	FirstTokenMax, AnswerMax time.Duration
	// WorkerWait is how long a request waits while no worker of the pools that may
	// answer it is up; default 5 s.
	WorkerWait time.Duration
	// NoticeEvery is how often a client of a stream that waits in the queue is
	// told its position; default 2 s.
	NoticeEvery time.Duration
	// Off hands every request to its worker at once, as if there was room for all.
	Off bool
}

const (
	firstTokenDefault = 60 * time.Second
	answerDefault     = 15 * time.Minute
	noticeDefault     = 2 * time.Second
	workerWaitDefault = 5 * time.Second
	// wakeEvery is how often a waiting request checks whether a breaker admits it.
	wakeEvery = time.Second
)

// Validate says everything that is wrong with a.
func (a *Admission) Validate() error {
	var problems []error
	if min(a.FirstTokenMax, a.AnswerMax, a.NoticeEvery, a.WorkerWait) < 0 {
		problems = append(problems,
			fmt.Errorf("FirstTokenMax is %v, AnswerMax %v, NoticeEvery %v and WorkerWait %v: none may be negative",
				a.FirstTokenMax, a.AnswerMax, a.NoticeEvery, a.WorkerWait))
	}
	return errors.Join(append(problems, a.Queue.Validate(), a.Breaker.Validate())...)
}

// WithDefaults returns a with defaults in place of zeros.
func (a Admission) WithDefaults() Admission {
	a.FirstTokenMax = cmp.Or(a.FirstTokenMax, firstTokenDefault)
	a.AnswerMax = cmp.Or(a.AnswerMax, answerDefault)
	a.NoticeEvery = cmp.Or(a.NoticeEvery, noticeDefault)
	a.WorkerWait = cmp.Or(a.WorkerWait, workerWaitDefault)
	return a
}

// A poolWorker worker has its workers in pools, which answer the requests of some
// tenants, classes and purposes only.
type poolWorker interface {
	parley.Worker
	// Pools lists the pools that serve a model, PoolsFor those that may answer a
	// request, the one to ask first at the head.
	Pools(model string) []string
	PoolsFor(r *parley.Request) []string
	// Pool computes in one pool, and in others that may answer if it has no worker.
	Pool(name string) parley.Worker
	// Ready counts the workers of a pool that can begin something.
	Ready(model, pool string) int
	// Cached returns how many tokens of a prompt a worker of a pool holds, if known.
	Cached(r *parley.Request, pool string) (tokens int, known bool)
	// NoWorkers is what a client is told whose request no worker can take.
	NoWorkers(r *parley.Request) error
}

// A poolQueue holds the requests for one model and pool until they are dispatched to the pool's
// workers. It is the edge around a [queue.Queue]: it has the
// clock, the lock and the waiting goroutines. Nothing here runs by itself: each arrival,
// start, end and cancellation dispatches what may go next.
type poolQueue struct {
	now     func() time.Time
	metrics *poolMetrics
	// model and worker keep work from what fails: this model on the workers of this
	// pool, and these workers with any model.
	model, worker *breaker
	// compute answers in this pool; pools knows its workers, nil where there is one.
	compute parley.Worker
	pools   poolWorker
	served  *Model
	// number is the place among the model's queues.
	pool   string
	number int
	// impatient classes may wait for less long than for a first token: their wait
	// continues with a worker that has not begun.
	impatient       [parley.Classes]bool
	impatientPeople bool

	mu    sync.Mutex
	queue *queue.Queue
}

func newBreaker(config queue.BreakerConfig) *breaker {
	return &breaker{inner: queue.NewBreaker(config)}
}

// A breaker is a [queue.Breaker] that several can use.
type breaker struct {
	mu    sync.Mutex
	inner *queue.Breaker
}

func (b *breaker) retry(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inner.Retry(now)
}

func (b *breaker) state(now time.Time) queue.BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inner.State(now)
}

// goes reports whether a request may go, and notes that it does.
func (b *breaker) goes(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.inner.Ready(now) {
		return false
	}
	b.inner.Go(now)
	return true
}

func (b *breaker) ended(o outcome, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o == inconclusive {
		b.inner.Abandon()
	} else {
		b.inner.Done(o == worked, now)
	}
}

// An outcome is what the end of a request says of its worker.
type outcome uint8

const (
	// inconclusive: the client left, or the request was wrong itself.
	inconclusive outcome = iota
	worked
	failed
)

// A ticket is a request's place in the queue.
type ticket struct {
	queue.Entry
	// queue is the queue that it is in. It changes under the locks of both queues.
	queue atomic.Pointer[poolQueue]
	// waitOver is closed when the request is dispatched, or rejected for the reason in refused.
	waitOver chan struct{}
	refused  error
	// dispatchedAt is zero until the request is dispatched.
	dispatchedAt time.Time
	// empty is since when no worker is up that could answer; zero if one is.
	empty time.Time
}

// lock locks the queue that the ticket is in and returns it.
func (k *ticket) lock() *poolQueue {
	for {
		t := k.queue.Load()
		t.mu.Lock()
		if k.queue.Load() == t {
			return t
		}
		t.mu.Unlock()
	}
}

// retry returns how long the breakers keep work from this pool, 0 if they do not.
func (t *poolQueue) retry(now time.Time) time.Duration {
	return max(t.model.retry(now), t.worker.retry(now))
}

// push gives a ticket its place in the queue, or refuses it. The lock is held.
func (t *poolQueue) push(k *ticket, now time.Time) error {
	verdict := t.queue.Push(&k.Entry, now)
	if verdict.Refused != "" {
		t.turnedAway(string(verdict.Refused), k.Class)
		return refusal(verdict.Refused, verdict.Wait, verdict.Retry)
	}
	if d := verdict.Displaced; d != nil {
		t.end(d, queue.ForOther)
	}
	t.dispatch(now)
	return nil
}

// ready counts the workers of the pool that can begin something.
func (t *poolQueue) ready() int {
	if t.pools == nil {
		return 1
	}
	return t.pools.Ready(t.served.ID, t.pool)
}

func (t *poolQueue) turnedAway(why string, class parley.Class) {
	t.metrics.turnedAway(why, class, t.pool)
}

// refusal is the error of a request that was rejected.
func refusal(why queue.Reason, wait, retry time.Duration) error {
	switch why {
	case queue.Late:
		return openai.Busy(wait, retry)
	case queue.TooLong:
		return &parley.Error{Code: parley.Overloaded, Wait: retry,
			Message: "The server is busy: your request reached the longest wait in the queue. Try again later."}
	case queue.ForOther:
		return &parley.Error{Code: parley.Overloaded, Wait: retry,
			Message: "The server is busy: your queued request was displaced by one of a higher tier, or of an " +
				"organisation with fewer queued requests. Try again later."}
	case queue.Overload:
		return &parley.Error{Code: parley.Overloaded, Wait: retry,
			Message: "The server is overloaded and rejects a share of all requests. Try again later."}
	}
	return &parley.Error{Code: parley.Overloaded, Wait: retry,
		Message: "The server is busy, and its queue is full. Try again later."}
}

// end refuses a waiting request. The lock is held.
func (t *poolQueue) end(e *queue.Entry, why queue.Reason) {
	k := e.Owner.(*ticket)
	t.turnedAway(string(why), e.Class)
	k.refused = refusal(why, 0, t.queue.Retry(e, 0))
	close(k.waitOver)
}

// dispatch starts every request that may run. The lock is held.
func (t *poolQueue) dispatch(now time.Time) {
	if t.pools != nil {
		t.queue.Workers(t.ready())
	}
	for e := t.queue.Expire(now); e != nil; e = t.queue.Expire(now) {
		t.end(e, queue.TooLong)
	}
	for e := t.queue.Trim(now); e != nil; e = t.queue.Trim(now) {
		t.end(e, queue.Overload)
	}
	for t.queue.Ready(now) {
		if !t.model.goes(now) {
			return
		}
		if !t.worker.goes(now) {
			t.model.ended(inconclusive, now)
			return
		}
		e := t.queue.Next(now)
		t.metrics.waited(e.Class, t.pool, e.Waited(now))
		k := e.Owner.(*ticket)
		k.dispatchedAt = now
		close(k.waitOver)
	}
}

// isWaitOver reports whether the waiting is over.
func (k *ticket) isWaitOver() bool {
	select {
	case <-k.waitOver:
		return true
	default:
		return false
	}
}

// outlook says where the ticket stands; ok is false if it does not wait.
func (k *ticket) outlook() (o queue.Outlook, ok bool) {
	t := k.lock()
	defer t.mu.Unlock()
	o = t.queue.Outlook(&k.Entry, t.now())
	return o, o.Position > 0
}

// drop lets go of a ticket's place, if it still has one.
func (k *ticket) drop() {
	t := k.lock()
	defer t.mu.Unlock()
	now := t.now()
	switch k.State() {
	case queue.Waiting:
	case queue.Held, queue.Running:
		t.model.ended(inconclusive, now)
		t.worker.ended(inconclusive, now)
	default: // it has ended, and what may go next was dispatched then
		return
	}
	t.queue.Cancel(&k.Entry, now)
	t.dispatch(now)
}

// run has the worker answer a dispatched request.
func (t *poolQueue) run(
	ctx context.Context, worker parley.Worker, r *parley.Request, k *ticket, yield func(*Step, error) bool,
) {
	a := &execution{
		queue:   t,
		ticket:  k,
		ctx:     ctx,
		yield:   yield,
		outcome: failed,
	}
	defer func() { t.finish(k, a.unnoted, a.usage, a.outcome) }()
	within, end := t.patient(ctx, k)
	defer end()
	a.within = within
	worker.Generate(within, r)(a.take)
	switch {
	case a.over:
	case a.elsewhere:
		a.outcome = inconclusive
	case a.usage != nil:
		a.outcome = worked
	}
}

// An execution is a dispatched request while a worker has it.
type execution struct {
	queue  *poolQueue
	ticket *ticket
	// within ends when the request has waited for too long at the worker, ctx when it is not wanted any more.
	ctx, within context.Context
	yield       func(*Step, error) bool
	// unnoted tokens came since the queue was told of some at noted.
	unnoted int
	noted   time.Time
	step    Step
	// outcome is failed unless it is seen to end otherwise, as when the worker panics. It is known once over is set.
	outcome outcome
	over    bool
	usage   *parley.Usage
	// elsewhere: another pool computed it, because this one has no worker any more.
	elsewhere bool
}

// take takes a delta of the worker, or why there is none.
func (a *execution) take(d parley.Delta, err error) (more bool) {
	t, k := a.queue, a.ticket
	if err != nil {
		a.over = true
		if a.outcome = t.blame(a.ctx, k, d.Routing, err); a.within.Err() != nil && a.ctx.Err() == nil {
			a.outcome, err = inconclusive, context.Cause(a.within)
		}
		a.yield(&Step{}, err)
		return false
	}
	if p := d.Progress; p != nil && p.Waiting {
		d.Progress = t.held(p)
	} else {
		a.progress(d.Count())
	}
	if a.usage = d.Usage; a.usage != nil && !t.computed(a.usage.Routing) {
		a.elsewhere = true
	}
	a.step.Delta = d
	if !a.yield(&a.step, nil) {
		a.over, a.outcome = true, worked // it was writing
	}
	return !a.over
}

// computed reports whether the workers of this pool computed what was routed so.
func (t *poolQueue) computed(by *parley.Routing) bool {
	return t.pools == nil || by != nil && by.Pool == t.pool
}

// patient returns a context that ends when the request has waited for as long as
// it may and no worker has begun it: a worker may let it wait, too.
func (t *poolQueue) patient(ctx context.Context, k *ticket) (within context.Context, end func()) {
	if k.Person && !t.impatientPeople || !k.Person && !t.impatient[k.Class] {
		return ctx, func() {}
	}
	within, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(max(k.Until().Sub(t.now()), 0), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch is := t.served.residency(); {
		case k.State() == queue.Held && is.Loading: // the limit on the first token looks after it
		case k.State() == queue.Held:
			t.turnedAway(string(queue.TooLong), k.Class)
			cancel(refusal(queue.TooLong, 0, t.queue.Retry(&k.Entry, 0)))
		}
	})
	return within, func() {
		late.Stop()
		cancel(nil)
	}
}

// stuckAfter is how long a worker may have a request without beginning it before
// that counts as a failure. Loading the model does not count.
const stuckAfter = firstTokenDefault / 2

// blame says what an error shows of the pool's workers: nothing, if another pool had
// the request last or no worker did.
func (t *poolQueue) blame(ctx context.Context, k *ticket, by *parley.Routing, err error) outcome {
	if ctx.Err() != nil {
		is := t.served.residency()
		began := k.dispatchedAt
		if is.Loaded.After(began) {
			began = is.Loaded
		}
		if k.State() == queue.Held && !is.Loading && !is.Waiting && t.now().Sub(began) >= stuckAfter {
			return failed
		}
		return inconclusive
	}
	if !t.computed(by) {
		return inconclusive
	}
	switch openai.CodeOf(err) {
	case parley.Internal, parley.Unavailable, parley.DeadlineExceeded:
		return failed
	}
	return inconclusive
}

// held is what a worker reports of a request that it has not begun, with how
// long that may take where the worker cannot tell.
func (t *poolQueue) held(p *parley.Progress) *parley.Progress {
	if p.Wait > 0 {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	told := *p
	told.Wait = t.queue.Begins(p.Ahead)
	return &told
}

// noteEvery is how often the queue learns of the tokens of an answer, after the first: to note each at once would
// cost a tenth of what it costs to send it on.
const noteEvery = 50 * time.Millisecond

// progress notes that n more tokens came.
func (a *execution) progress(n int) {
	t, e, now := a.queue, &a.ticket.Entry, a.queue.now()
	if a.unnoted += n; now.Sub(a.noted) < noteEvery {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	began := e.State() == queue.Held
	t.queue.Started(e, now)
	t.queue.Served(e, a.unnoted, now)
	a.unnoted, a.noted = 0, now
	if began {
		t.dispatch(now)
	}
}

// finish ends a request that was with the worker, of which some tokens were not noted.
func (t *poolQueue) finish(k *ticket, unnoted int, usage *parley.Usage, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	t.model.ended(o, now)
	t.worker.ended(o, now)
	t.queue.Served(&k.Entry, unnoted, now)
	if usage != nil {
		t.queue.Finish(&k.Entry, usage.PromptTokens-usage.CachedTokens, usage.OutputTokens, now)
	} else {
		t.queue.Cancel(&k.Entry, now)
	}
	t.dispatch(now)
}

// load returns what the queue holds.
func (t *poolQueue) load() queue.Load {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Load(t.now())
}
