package fleet

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/queue"
	"parley/route"
)

// A Fleet is a set of workers behind one [parley.Worker].
type Fleet struct {
	cfg     Config
	metrics *metrics
	// absent are the workers that are known and could not join.
	absent absentees

	mu      sync.Mutex
	router  *route.Router
	members []*member
	// budgets are what may be computed again, for each pool: one whose workers fail
	// does not delay the answers of another.
	budgets map[string]*budget
	// changed ends when a worker may take what waited.
	changed period
	recent  recentPrompts
	// withdrawn has what was withdrawn from workers that had not begun it.
	withdrawn withdrawnQueue
	// deaths counts workers that were up and were lost.
	deaths atomic.Uint64

	context    context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

// A member is a worker in the fleet. The fleet's lock guards what changes.
type member struct {
	Member
	replicas []replica
	orders   orders
	health   health
	totals   totals
	warmUp   *warmUp // the latest; nil if there was none
	reuse    reuse
	breaker  *queue.Breaker
	attempts map[*attempt]struct{}
	kick     chan struct{} // asks for a probe now
	stop     context.CancelFunc
	// endFollow cancels the event stream that is open or was last; nil before the first one.
	endFollow context.CancelFunc
}

// orders are what a member was told to do.
type orders struct {
	// drained by the operator; tired if it is to sleep when it has nothing to do;
	// waking while it is told to; leaving when it has been taken out.
	drained, tired, waking, leaving bool
	// changes counts the orders and how often it was found gone, so that older
	// answers of probes are known; drains counts those by the operator;
	// wakeAfter is when it may be woken again after that failed.
	changes   int
	drains    int
	wakeAfter time.Time
}

// health is how a member was found.
type health struct {
	state     State     // but for Failing, which the breaker says, Waking and Warming
	trouble   error     // why it is not up, if something said so
	barred    time.Time // it gets nothing before, because it rejects the key
	condition Condition
	reported  time.Time // when the probe began that found it so
	since     time.Time // it is up
	misses    int       // probes without an answer, in a row
	crowd     int       // answers it had when it was lost
	handed    string    // the latest process of which others have what it held
}

// totals count what a member has done.
type totals struct {
	sent, failed, lost, moved uint64
	cached, prompts           uint64 // tokens
}

// A replica is one model on one member: the router knows a member once for each of its models.
type replica struct {
	model string
	id    route.ID
}

// A dispatch is one request on its way through the fleet, from worker to worker if
// need be.
type dispatch struct {
	fleet   *Fleet
	r       *parley.Request
	partial partialAnswer
	triedReplicas
	// instead is why the last of them did, if another model is asked after that; nil if not.
	instead error
	// beside is the worker that answers already, while a second one is looked for.
	beside *member
	// tries were answered with errors; moves counts them, workers that were lost,
	// and moves that we wanted.
	tries, moves int
	back         withdrawals
	poison       poisonCheck
	// piecesBefore is how many pieces there were when the last attempt began.
	piecesBefore int
	// pool is the one that is asked first; empty for the first that admits the request.
	pool string
}

// triedReplicas are the workers that a dispatch has been to, by how that ended.
type triedReplicas struct {
	// avoid are replicas on workers that have failed it, heldBy those that have computed all
	// of it so far and are not lost.
	avoid, heldBy []route.ID
	// failedAt are those that have answered it with errors.
	failedAt []*member
}

// An attempt is the part of a dispatch with one worker.
type attempt struct {
	member   *member
	query    *route.Request
	decision route.Decision
	routing  *parley.Routing
	flow     flow
	// blame is how much its worker's loss speaks against the request.
	blame int
	// removed is set when the replica that it was sent to is no longer in the router.
	removed bool
	// shown is set once a delta has said who computes; computed once the prompt is.
	shown, computed bool
	// sent is when a worker was found; record is what people are told.
	sent   time.Time
	record record
	// back says whether the attempt is withdrawn.
	back withdrawable
}

// A flow is what the worker of an attempt says.
type flow struct {
	// stream is that, until context ends.
	stream  iter.Seq2[parley.Delta, error]
	context context.Context
	// cancel breaks the attempt off, which broken says was wanted; why is set if that was
	// before it began.
	cancel context.CancelCauseFunc
	broken bool
	why    error
	blocks attemptBlocks
}

// attemptBlocks is what the worker of an attempt fetches from another one.
type attemptBlocks struct {
	// source is that worker, nil if there is none, and fetching is set until it is known
	// what came.
	source   *parley.BlockSource
	fetching bool
	// prompt is the attempt in which that worker computes the prompt first, nil if it has it.
	prompt *attempt
}

// A withdrawable is what is known of an attempt that may be withdrawn from its worker before
// it has begun. The fleet's lock guards it.
type withdrawable struct {
	// class is the request's, and withdrawn how often it was withdrawn before.
	class     parley.Class
	withdrawn int
	// request asks a worker that decides itself; see [Member.Withdraws].
	request parley.Withdrawal
	asked   bool
	// dropped: the worker was not asked, so what it still says is not wanted.
	dropped bool
	// why is for people, target the idle worker that it is meant for, ahead the attempt of
	// a higher class that goes first; target is empty and ahead nil if that is not the
	// reason.
	why, target string
	ahead       *attempt
	// begun is closed when the attempt's first token has come or it has ended; nil while
	// none waits for that.
	begun chan struct{}
}

// withdrawals are what is known of how a dispatch was withdrawn.
type withdrawals struct {
	// times is how often that was, pool where it was last, since when it was with its
	// first worker.
	times int
	pool  string
	since time.Time
}

// A withdrawnQueue has the dispatches that were withdrawn and not sent again, in the order in
// which they came. The fleet's lock guards it.
type withdrawnQueue struct {
	dispatches []*dispatch
	planned    time.Time // when it was last decided what is withdrawn
	left       time.Time // when the last one left the queue
}

// A record is what people are told of an attempt, in the attempts of its call.
type record struct {
	parley.Attempt
	asked    time.Time // when a worker was looked for
	attempts *parley.AttemptLog
	number   int
}

// metrics are the counters. What the fleet knows anyway is read on demand.
type metrics struct {
	fleet   *Fleet
	moves   *prometheus.CounterVec
	delayed prometheus.Counter
	waits   prometheus.Counter
	hedges  prometheus.Counter
	wakes   prometheus.Counter
	// withdrawn are requests that were withdrawn.
	withdrawn *prometheus.CounterVec
	// transfers are those of blocks between workers.
	transfers      *prometheus.CounterVec
	transferTokens prometheus.Counter
	// warmUps and warmTokens are those of workers before they get requests.
	warmUps    *prometheus.CounterVec
	warmTokens prometheus.Counter
	// handedTokens are those that workers fetched from one about to stop.
	handedTokens prometheus.Counter
}

func (m *metrics) moved(v attemptVerdict) {
	m.moves.WithLabelValues([...]string{
		refused:   "refused",
		failed:    "failed",
		lost:      "lost",
		moved:     "drained",
		withdrawn: "refused",
	}[v]).Inc()
}

// find returns the member with a name that has not been taken out. The lock is
// held.
func (f *Fleet) find(name string) *member {
	for _, m := range f.members {
		if m.Name == name && !m.orders.leaving {
			return m
		}
	}
	return nil
}

// at returns the member with a replica. The lock is held.
func (f *Fleet) at(id route.ID) *member {
	i := slices.IndexFunc(f.members, func(m *member) bool {
		return slices.ContainsFunc(m.replicas, func(s replica) bool { return s.id == id })
	})
	return f.members[i]
}

// named is find with an error if there is no such worker. The lock is held.
func (f *Fleet) named(name string) (*member, error) {
	if m := f.find(name); m != nil {
		return m, nil
	}
	return nil, parley.Errorf(parley.NotFound, "There is no worker %s: parley fleet status lists them.", name)
}

// wake lets those that wait look again. The lock is held.
func (f *Fleet) wake() {
	f.changed.end()
}

// A period lasts until something changes, and is followed by another.
type period struct{ over chan struct{} }

func newPeriod() period { return period{make(chan struct{})} }

func (p *period) end() {
	close(p.over)
	*p = newPeriod()
}

// serves reports whether a worker's model is one of the fleet's.
func (f *Fleet) serves(m parley.Model) bool {
	return slices.ContainsFunc(f.cfg.Models, func(ours parley.Model) bool { return ours.ID == m.ID })
}

func namesOfModels(models []parley.Model) string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.ID
	}
	return strings.Join(names, ", ")
}

func (m *member) replica(model string) (route.ID, bool) {
	for _, s := range m.replicas {
		if s.model == model {
			return s.id, true
		}
	}
	return 0, false
}

func has(models []parley.Model, id string) bool {
	return slices.ContainsFunc(models, func(m parley.Model) bool { return m.ID == id })
}

// abort breaks the attempt off. The lock is held.
func (l *attempt) abort(why error) {
	l.flow.broken = true
	if l.flow.cancel == nil {
		l.flow.why = why
		return
	}
	l.flow.cancel(why)
}

// present returns the member's state with its breaker's.
func (m *member) present(now time.Time) State {
	o, h := &m.orders, &m.health
	switch {
	case h.state == Asleep && o.waking:
		return Waking
	case h.state == Up && (o.drained || o.tired || o.leaving || h.condition.Draining):
		return Draining
	case h.state == Up && m.warmUp.underWay():
		return Warming
	case h.state == Up && m.breaker.State(now) == queue.Open:
		return Failing
	}
	return h.state
}

// status is what the router is told.
func (m *member) status(now time.Time, slowStart time.Duration) route.Status {
	s := route.Status{
		Ready:         m.present(now) == Up && m.breaker.Ready(now),
		UsedTokens:    m.health.condition.UsedTokens,
		WaitingTokens: m.health.condition.WaitingTokens,
		Running:       m.health.condition.Running,
		Role:          m.health.condition.Role,
		RoleOnly:      m.Meet != nil && m.health.condition.Role != "",
		Divides:       m.Divides,
	}
	if c := &m.health.condition; m.Blocks != nil && c.Format != "" {
		present := m.present(now)
		s.Exchange = route.BlockExchange{
			Format:     c.Format,
			BlockBytes: c.BlockBytes,
			Place:      c.Place,
			Gives:      present == Up || present == Draining,
		}
	}
	if up := now.Sub(m.health.since); slowStart > 0 && up < slowStart {
		s.Share = max(shareMin, float64(up)/float64(slowStart))
	}
	return s
}

// shareMin is the share of a worker that just came.
const shareMin = 0.1

// cut breaks a member's answers off, so that they move. The lock is held.
func (m *member) cut(why error) {
	for l := range m.attempts {
		l.abort(why)
	}
}

// budgetOf returns the budget of the pool that an attempt is in. The lock is held.
func (f *Fleet) budgetOf(l *attempt) *budget { return f.budgets[l.member.Pool] }

// report gives the router how the workers are. The lock is held.
func (f *Fleet) report(now time.Time) {
	for _, m := range f.members {
		for _, s := range m.replicas {
			f.router.Report(s.id, m.status(now, f.cfg.SlowStart))
		}
	}
}

// watched makes begun a channel.
func (b *withdrawable) watched() {
	if b.begun == nil {
		b.begun = make(chan struct{})
	}
}

// answered notes that the first token has come, or none will.
func (b *withdrawable) answered() {
	if b.begun != nil {
		close(b.begun)
		b.begun = nil
	}
}

// sent notes that the dispatch was sent to a worker.
func (b *withdrawals) sent(now time.Time) {
	if b.since.IsZero() {
		b.since = now
	}
}

func (q *withdrawnQueue) enter(t *dispatch) {
	at, _ := slices.BinarySearchFunc(q.dispatches, t, func(a, b *dispatch) int {
		return a.partial.began.Compare(b.partial.began)
	})
	q.dispatches = slices.Insert(q.dispatches, at, t)
}

// first reports whether none that was withdrawn in the same pool came before t.
func (q *withdrawnQueue) first(t *dispatch) bool {
	i := slices.IndexFunc(q.dispatches, func(x *dispatch) bool {
		return x.back.pool == t.back.pool && x.r.Model == t.r.Model
	})
	return i < 0 || q.dispatches[i] == t
}

// leave reports whether t was there.
func (q *withdrawnQueue) leave(t *dispatch, now time.Time) bool {
	i := slices.Index(q.dispatches, t)
	if i >= 0 {
		q.dispatches = slices.Delete(q.dispatches, i, i+1)
		q.left = now
	}
	return i >= 0
}

// observe notes what came from the worker. What is for the record alone goes no
// further.
func (r *record) observe(d *parley.Delta, now time.Time) {
	if n := d.Count(); n > 0 {
		if r.First.IsZero() {
			r.First = now
		}
		r.Tokens += n
	}
	if d.Transfer != nil {
		r.Transfer, d.Transfer = d.Transfer, nil
	}
	if d.Timings != nil {
		r.Timings, d.Timings = d.Timings, nil
	}
	if d.Usage != nil {
		r.Usage = new(*d.Usage)
	}
}

// close notes how the attempt ended, unless that is known.
func (r *record) close(end string, err error, now time.Time) {
	if r.End != "" {
		return
	}
	r.End, r.Ended = end, now
	if err != nil {
		r.Why = err.Error()
	}
	r.attempts.Note(r.number, r.Attempt)
}
