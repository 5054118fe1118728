package fleet

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/fleet/withdraw"
	"parley/route"
)

func (f *Fleet) newDispatch(r *parley.Request, pool string) *dispatch {
	return &dispatch{
		fleet:   f,
		r:       r,
		pool:    pool,
		partial: newPartialAnswer(r, f.cfg.Now()),
		poison:  poisonCheck{from: f.deaths.Load()},
	}
}

// run answers the request.
func (t *dispatch) run(ctx context.Context, yield func(parley.Delta, error) bool) {
	defer func() { t.fleet.settled(t) }()
	for {
		l, err := t.pickWorker(ctx)
		if err != nil {
			yieldLast(yield, nil, nil, err)
			return
		}
		if t.open(ctx, l); t.hedges() {
			l = t.race(ctx, l)
		}
		v, err := t.runAttempt(ctx, l, yield)
		switch {
		case v == answered:
			return
		case v != final && t.partial.complete():
			yieldLast(yield, nil, t.totalUsage(l, nil), nil)
			return
		case v != final:
			err = t.failover(ctx, l, v, err)
		}
		if err != nil {
			yieldLast(yield, l.routing, nil, err) // who failed
			return
		}
	}
}

// yieldLast yields a delta without tokens. It is not inlined: the delta would make the frame of the caller
// larger, which stays on the stack of every open stream.
//
//go:noinline
func yieldLast(yield func(parley.Delta, error) bool, routing *parley.Routing, usage *parley.Usage, err error) {
	yield(parley.Delta{Routing: routing, Usage: usage}, err)
}

// open lets an attempt begin: what its worker says is its stream.
func (t *dispatch) open(ctx context.Context, l *attempt) {
	now := t.fleet.cfg.Now()
	beside := t.promptBeside(ctx, l, now)
	bounded, cancel := context.WithCancelCause(l.keep(ctx, now))
	l.flow.context = bounded
	if l.member.Withdraws {
		bounded = parley.WithWithdrawal(bounded, &l.back.request)
	}
	r := t.partial.request(t.r, l.member.Resume)
	if l.flow.blocks.source != nil {
		r = new(*r)
		r.Fetch = l.flow.blocks.source
	}
	if waited := now.Sub(t.partial.began); waited >= time.Millisecond && !t.partial.begun() {
		r = new(*r)
		r.Waited += waited // with other workers, or for this one
	}
	if p := l.flow.blocks.prompt; p != nil && p.member.Divides != "" {
		l.flow.stream = t.divided(ctx, l, p, r, now)
	} else {
		l.flow.stream = beside(l.member.Worker.Generate(bounded, r))
	}
	t.fleet.begin(l, cancel)
}

// runAttempt has one worker answer, as far as it gets.
func (t *dispatch) runAttempt(
	ctx context.Context, l *attempt, yield func(parley.Delta, error) bool,
) (attemptVerdict, error) {
	defer l.flow.cancel(nil)
	a := &attemptRun{
		dispatch: t,
		attempt:  l,
		ctx:      ctx,
		yield:    yield,
		stall:    stallTimer{most: t.fleet.cfg.StallMax, cancel: l.flow.cancel},
		earnAt:   1,
		verdict:  failed,
		err:      errCut,
	}
	defer func() {
		now := t.fleet.cfg.Now()
		if a.unearned > 0 {
			t.fleet.earn(l, a.unearned, now)
		}
		l.leaves(ctx, a.verdict, now)
		t.fleet.finish(l, a.verdict, a.err, t.failedBefore(l))
	}()
	defer a.stall.stop()
	l.flow.stream(a.take)
	switch {
	case a.over:
	case a.complete:
		a.verdict, a.err = answered, nil
	case ctx.Err() != nil:
		a.verdict, a.err = final, context.Cause(ctx)
	default:
		a.verdict = judge(ctx, l.flow.context, errCut)
	}
	return a.verdict, a.err
}

// An attemptRun is a dispatch while one worker answers it.
type attemptRun struct {
	*dispatch
	attempt *attempt
	ctx     context.Context
	yield   func(parley.Delta, error) bool
	stall   stallTimer
	// unearned tokens came and the budget has not got them: it gets earnAt of them at a time.
	unearned, earnAt int
	// verdict and err say how it ended: failed, unless it is seen to end otherwise, as when the worker panics. They
	// are known once over is set.
	verdict  attemptVerdict
	err      error
	over     bool
	complete bool
}

// end notes how the attempt ended.
func (a *attemptRun) end(v attemptVerdict, err error) (more bool) {
	a.over, a.verdict, a.err = true, v, err
	return false
}

// take takes a delta of the worker, or why there is none.
func (a *attemptRun) take(d parley.Delta, fault error) (more bool) {
	f, l := a.fleet, a.attempt
	a.stall.disarm()
	now := f.cfg.Now()
	if d.Transfer != nil {
		f.fetched(l, d.Transfer)
	}
	l.record.observe(&d, now)
	if fault != nil {
		return a.end(judge(a.ctx, l.flow.context, fault), fault)
	}
	if !a.note(&d, now) {
		return a.end(withdrawn, errWithdrawn)
	}
	a.complete = a.complete || d.Usage != nil
	if !a.yield(d, nil) {
		return a.end(answered, nil)
	}
	if a.partial.pieces() > 0 {
		a.stall.arm()
	}
	return true
}

// note adds a delta to the partial answer, and corrects what a worker cannot know. It reports false if the
// attempt was withdrawn before its first token.
func (a *attemptRun) note(d *parley.Delta, now time.Time) bool {
	l := a.attempt
	if a.unearned += d.Count(); a.unearned >= a.earnAt {
		if !a.fleet.earn(l, a.unearned, now) {
			return false
		}
		a.unearned, a.earnAt = 0, earnedAtOnce
	}
	d.CachedTokens = a.cachedAtFirst(l, d)
	a.partial.add(d, now)
	if !l.shown {
		l.shown, d.Routing = true, l.routing
	}
	if d.Usage != nil {
		d.Usage = a.totalUsage(l, d.Usage)
	}
	return true
}

// cachedAtFirst returns what the first delta of an answer says of its prompt: nothing where another
// worker had begun the answer, and without what a worker for prompts has just computed.
func (t *dispatch) cachedAtFirst(l *attempt, d *parley.Delta) int {
	if t.partial.begun() {
		return 0
	}
	if came := l.record.Transfer; came != nil && l.flow.blocks.prompt != nil {
		return max(0, d.CachedTokens-came.CameTokens)
	}
	return d.CachedTokens
}

// earnedAtOnce is how many tokens of an attempt the budget gets together, after the first.
const earnedAtOnce = 16

// earn notes that n tokens of an attempt came, unless it was withdrawn.
func (f *Fleet) earn(l *attempt, n int, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.back.dropped && !l.computed {
		return false
	}
	if !l.computed {
		f.computed(l)
		f.budgetOf(l).earn(l.decision.Uncached, now)
	}
	f.budgetOf(l).earn(n, now)
	return true
}

// totalUsage returns the usage of the whole dispatch.
func (t *dispatch) totalUsage(l *attempt, last *parley.Usage) *parley.Usage {
	u := last
	if last == nil || t.moves > 0 {
		u = t.partial.usage(t.r, last, t.fleet.cfg.Now())
	} else {
		u = new(*last)
		if t.back.times > 0 {
			u.Queued += l.sent.Sub(t.back.since) // with the workers that it was withdrawn from
		}
	}
	u.Routing = l.routing
	t.fleet.saw(l, t, u)
	l.addPrompt(u)
	return u
}

// failover decides whether another worker should resume, and waits until it may. The
// error it returns is for the client.
func (t *dispatch) failover(ctx context.Context, l *attempt, v attemptVerdict, err error) error {
	f := t.fleet
	if t.partial.pieces() > t.piecesBefore {
		t.tries = 0
		t.poison.reset()
	}
	if v == withdrawn && t.back.times < withdraw.Most {
		if id, ok := l.member.replica(t.r.Model); ok && l.back.ahead == nil {
			t.avoid = append(t.avoid, id)
		}
		return t.returned(ctx, l)
	}
	t.moves++
	switch v {
	case lost:
		t.poison.add(l.blame, f.deaths.Load())
	case failed, refused, withdrawn: // the last one gives back what it was not asked for
		t.tries++
	}
	if v == failed {
		t.failedAt = append(t.failedAt, l.member)
	}
	switch {
	case t.partial.begun() && (l.member.TextOnly || t.partial.texts > 0):
		return &parley.Error{Code: parley.Unavailable,
			Message: "The worker generating this answer was lost, and answers from this kind of worker cannot be " +
				"resumed. Retry the request."}
	case t.tries >= f.cfg.Tries:
		return err
	case t.poison.exceeded(f.cfg.Losses):
		return &parley.Error{Code: parley.Unavailable, Wait: -1,
			Message: "Every worker that got this request was lost before the first token, so it is not retried."}
	}
	t.heldBy = nil
	if p, ok := errors.AsType[*promptError](err); ok {
		t.avoid = append(t.avoid, p.id)
	} else if id, ok := l.member.replica(t.r.Model); ok {
		t.avoid = append(t.avoid, id)
		if v == moved && t.partial.pieces() > t.piecesBefore { // its worker has written the last token
			t.heldBy = []route.ID{id}
		}
	}
	t.instead = t.elsewhere(v, err)
	f.metrics.moved(v)
	f.cfg.Log.Info("failover", "request", t.r.ID, "worker", l.member.Name, "error", err, "tokens", t.partial.pieces(),
		"moves", t.moves)
	f.mu.Lock()
	wait := f.budgetOf(l).spend(t.partial.work(t.r), f.cfg.Now())
	f.mu.Unlock()
	if wait > 0 {
		f.metrics.delayed.Inc()
	}
	if !sleep(ctx, max(wait, backoff(t.poison.blame))) {
		return context.Cause(ctx)
	}
	return nil
}

// backoff is how long to wait after a number of losses in a row: a request that kills
// workers should not do so quickly.
func backoff(losses int) time.Duration {
	return min(backoffMin<<min(max(losses-backoffAfter, 0), 8)-backoffMin, backoffMax)
}

const (
	backoffAfter = 2
	backoffMin   = 25 * time.Millisecond
	backoffMax   = 2 * time.Second
)

// elsewhere returns the error after which another model is asked, instead of the same workers again; nil if none is.
func (t *dispatch) elsewhere(v attemptVerdict, err error) error {
	if v == lost {
		if _, known := errors.AsType[*parley.Error](err); !known {
			err = parley.Errorf(parley.Unavailable, "The worker was lost: %v.", err)
		}
	}
	if t.partial.begun() || v == moved || v == withdrawn || !slices.Contains(t.r.Elsewhere, parley.CodeOf(err)) {
		return nil
	}
	return err
}

// pickWorker picks a worker, and waits for one if need be.
func (t *dispatch) pickWorker(ctx context.Context) (*attempt, error) {
	f := t.fleet
	asked := f.cfg.Now()
	query := t.query()
	for {
		l, changed, err := f.pick(t, query)
		f.settled(t)
		if err == nil {
			l.record.asked = asked
			t.piecesBefore = t.partial.pieces()
			return l, nil
		}
		none, waits := errors.AsType[*route.NoWorker](err)
		waited := f.cfg.Now().Sub(asked)
		if t.instead != nil && (!waits || none.Refused[route.NoRoom] == 0) {
			return nil, t.instead
		}
		if !waits || !none.Waits() || waited >= t.patience(none) && !f.rousing(t.r) {
			return nil, f.refusal(t.r, err)
		}
		f.metrics.waits.Inc()
		if err := await(ctx, changed, lookEvery); err != nil {
			return nil, err
		}
	}
}

// patience is how long the dispatch waits for a worker. One that has not begun waits
// for less time where no worker of its pools is up: its client can ask again.
func (t *dispatch) patience(none *route.NoWorker) time.Duration {
	if t.partial.begun() || none.Refused[route.NoRoom] > 0 || t.fleet.sleeps(t.r) {
		return t.fleet.cfg.WaitMax
	}
	if slices.Contains(t.r.Elsewhere, parley.Unavailable) {
		return 0
	}
	return min(t.fleet.cfg.EmptyWait, t.fleet.cfg.WaitMax)
}

// refusal is the error for a request that no worker can take.
func (f *Fleet) refusal(r *parley.Request, err error) error {
	none, ok := errors.AsType[*route.NoWorker](err)
	switch {
	case !ok:
		return err
	case none.Refused[route.TooSmall] > 0 && !none.Waits():
		return &parley.Error{Code: parley.ContextTooLong, Param: "max_tokens",
			Message: "No worker has enough memory for a prompt and an answer of this length. Shorten either."}
	}
	if none.Refused[route.NoRoom] == 0 {
		return f.NoWorkers(r)
	}
	return &parley.Error{Code: parley.Unavailable, Wait: time.Second,
		Message: "No worker for the model '" + r.Model + "' can take your request now (" + strings.TrimPrefix(
			err.Error(), "no worker can take the request, ") + "). Try again later."}
}

// query is what the router is asked: the prompt as the worker would see it.
func (t *dispatch) query() *route.Request {
	tokens := t.r.Prompt
	if more := t.partial.longest(); len(more) > 0 {
		tokens = slices.Concat(tokens, more)
	}
	q := query(t.r, tokens, t.fleet.blockSizes())
	q.HeldBy = t.heldBy
	return q
}

func (f *Fleet) blockSizes() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.router.BlockSizes()
}

// query is what the router is asked for a request whose prompt, with what was said since, has the given tokens.
func query(r *parley.Request, tokens []parley.Token, sizes []int) *route.Request {
	q := &route.Request{
		Model:        r.Model,
		Key:          cmp.Or(r.Session, r.Tenant),
		PromptTokens: len(tokens),
		OutputTokens: min(max(r.MaxTokens, 1), outputGuess) * max(1, r.Choices),
		Prompts:      make([]route.Prompt, len(sizes)),
	}
	for i, size := range sizes {
		q.Prompts[i] = route.Prompt{BlockTokens: size, Keys: keysOf(tokens, r, size)}
	}
	return q
}

// outputGuess bounds the output that room is looked for: most answers end
// sooner than they may, and an engine makes room when one does not.
const outputGuess = 512

// pick decides where a dispatch goes next, or returns what is closed when that may
// have changed.
func (f *Fleet) pick(t *dispatch, q *route.Request) (l *attempt, changed <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.cfg.Now()
	f.report(now)
	for _, p := range f.admitting(t.r, t.pool) {
		q.Pool = p.Name
		d, fault := f.choose(t, q, now)
		if fault == nil {
			return f.send(t, q, d, now), nil, nil
		}
		err = fault
		if none, ok := errors.AsType[*route.NoWorker](fault); ok && (none.Refused[route.NoRoom] > 0 ||
			t.beside != nil && none.Refused[route.Avoided] > 0) {
			break // a worker is there, which will have room or answers already
		}
	}
	if err == nil {
		err = notAdmitted(t.r)
	}
	f.cutWarmUps(t.r)
	f.rouseFor(t.r)
	return nil, f.changed.over, err
}

// choose asks the router for a worker that has not failed the dispatch, or failing
// that for any, unless another model is asked then.
func (f *Fleet) choose(t *dispatch, q *route.Request, now time.Time) (route.Decision, error) {
	unable := f.unable(t)
	q.Avoid = append(unable, t.avoid...)
	d, err := f.router.Pick(q, now)
	if none, ok := errors.AsType[*route.NoWorker](err); ok && none.Refused[route.Avoided] > 0 && len(t.avoid) > 0 &&
		t.instead == nil {
		t.avoid = nil
		q.Avoid = unable
		d, err = f.router.Pick(q, now)
	}
	return d, err
}

// unable lists the replicas that cannot resume what has begun, and that of the worker
// which answers already.
func (f *Fleet) unable(t *dispatch) (ids []route.ID) {
	begun := t.partial.begun()
	if !begun && t.beside == nil {
		return nil
	}
	for _, m := range f.members {
		if id, ok := m.replica(t.r.Model); ok && (m == t.beside || begun && !t.partial.resumable(t.r, m.Resume)) {
			ids = append(ids, id)
		}
	}
	return ids
}

// send notes that a dispatch goes as decided. The lock is held.
func (f *Fleet) send(t *dispatch, q *route.Request, d route.Decision, now time.Time) *attempt {
	source, prompt := f.source(t, q, &d, now)
	if prompt == nil {
		prompt = f.pair(t, q, &d, now)
	}
	t.back.sent(now)
	l := f.newAttempt(t, q, d, now)
	l.flow.blocks = attemptBlocks{source, source != nil, prompt}
	return l
}

// newAttempt notes that a worker gets a dispatch, or its prompt. The lock is held.
func (f *Fleet) newAttempt(t *dispatch, q *route.Request, d route.Decision, now time.Time) *attempt {
	m := f.at(d.Worker)
	f.router.Sent(q, &d, now)
	m.breaker.Go(now)
	m.totals.sent++
	l := &attempt{
		member:   m,
		query:    q,
		decision: d,
		routing:  &parley.Routing{Worker: m.Name, Pool: m.Pool, Reason: d.String(), Moves: t.moves},
		sent:     now,
		back:     withdrawable{class: t.r.Class, withdrawn: t.back.times},
	}
	m.attempts[l] = struct{}{}
	if m.health.condition.Waiting > 0 && !m.Withdraws { // those before it may have to let it go first
		f.withdraw(now)
	}
	return l
}

// begin lets the attempt be broken off.
func (f *Fleet) begin(l *attempt, cancel context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.flow.cancel = cancel
	if l.flow.why != nil {
		cancel(l.flow.why)
	}
}

// computed notes that an attempt's prompt is, or will not be. The lock is held.
func (f *Fleet) computed(l *attempt) {
	if !l.computed && !l.removed {
		f.router.Computed(&l.decision)
	}
	l.computed = true
	l.back.answered()
}

// failedBefore reports whether the worker of an attempt has answered the same request with an error already.
func (t *dispatch) failedBefore(l *attempt) bool { return slices.Contains(t.failedAt, l.member) }

// finish notes how an attempt ended. A failure that comes again with the same request speaks against the request, not
// against the worker.
func (f *Fleet) finish(l *attempt, v attemptVerdict, err error, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, now := l.member, f.cfg.Now()
	l.record.close(v.String(), err, now)
	delete(m.attempts, l)
	f.fetchEnded(l, nil, now)
	if f.computed(l); !l.removed {
		f.router.Done(&l.decision)
		if v == withdrawn {
			f.router.Unsent(l.query, &l.decision)
		}
	}
	switch v {
	case answered:
		m.breaker.Done(true, now)
	case failed:
		m.totals.failed++
		if again {
			m.breaker.Abandon()
		} else {
			m.breaker.Done(false, now)
		}
	case lost:
		l.blame = f.suspect(m, err)
	case withdrawn:
		m.breaker.Abandon()
		if !l.back.asked { // it may be draining
			m.ask()
		}
	default:
		m.breaker.Abandon()
	}
	if v != answered && v != final && v != withdrawn {
		m.totals.moved++
	}
	f.release(m)
	f.wake()
}
