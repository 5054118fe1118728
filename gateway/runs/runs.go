package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/ledger"
)

// A Config says what runs are kept in.
type Config struct {
	Store *convo.Store
	// Writes is what runs write to, default Store.
	Writes Store
	// Process names this process in the store.
	Process string
	// Ledger is purged together with the store, if it is not nil and LedgerFor is not 0.
	Ledger    *ledger.Ledger
	Retention convo.Retention
	LedgerFor time.Duration
	Now       func() time.Time
	Log       *slog.Logger
}

// A Store keeps what runs write. [convo.Store] is one.
type Store interface {
	Heartbeat(ctx context.Context, process string, until time.Time) error
	Recover(ctx context.Context, now time.Time) (convo.Recovery, error)
	Purge(ctx context.Context, now time.Time, keep convo.Retention) error

	BeginTurn(ctx context.Context, owner convo.Owner, conversation string, t convo.NewTurn,
		now time.Time) (convo.Turn, error)
	ResumeTurn(ctx context.Context, owner convo.Owner, answer convo.AnswerID, now time.Time) (convo.Message, error)
	Checkpoint(ctx context.Context, owner convo.Owner, answer convo.AnswerID, content json.RawMessage) error
	FinishTurn(ctx context.Context, owner convo.Owner, answer convo.AnswerID, outcome convo.Outcome,
		now time.Time) (convo.Message, error)

	CreateResponse(ctx context.Context, owner convo.Owner, r convo.NewResponse, now time.Time) (convo.Response, error)
	AppendEvents(ctx context.Context, owner convo.Owner, id string, batch convo.EventBatch) (convo.Progress, error)
	FinishResponse(ctx context.Context, owner convo.Owner, id string, outcome convo.ResponseOutcome,
		now time.Time) (convo.Response, error)
}

// Runs are what this process writes, and the work that continues without a client.
type Runs struct {
	Config
	registry
	lease
	ctx  context.Context // ends when work must stop
	stop context.CancelCauseFunc
	loop sync.WaitGroup

	// slots are those of periodic writes.
	slots *writeSlots

	closing sync.Mutex // guards closed, so that no work begins after it is set
	closed  bool
	work    sync.WaitGroup
}

// Open takes up what earlier processes left.
func Open(config Config) (*Runs, error) {
	r := &Runs{Config: config, slots: newWriteSlots(config.Store.SmallWritesMax())}
	if r.Writes == nil {
		r.Writes = config.Store
	}
	r.lease.store, r.lease.process, r.lease.now = r.Writes, config.Process, config.Now
	r.registry.runs = map[string]*run{}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	if err := r.bounded(r.recoverAbandoned); err != nil {
		return nil, fmt.Errorf("conversation store: %w", err)
	}
	r.loop.Go(r.maintain)
	return r, nil
}

// purgeEvery is how often what is kept no longer is removed.
const purgeEvery = time.Hour

// maintain sends heartbeats while this process writes, stores outcomes that are
// pending, and looks after what other processes left.
func (r *Runs) maintain() {
	tick := time.NewTicker(HeartbeatEvery)
	defer tick.Stop()
	purged := r.Now()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		err := errors.Join(r.bounded(r.heartbeat), r.bounded(r.flush), r.bounded(r.recoverAbandoned))
		if now := r.Now(); now.Sub(purged) >= purgeEvery {
			purged = now
			err = errors.Join(err, r.bounded(r.purge))
		}
		if err != nil && r.ctx.Err() == nil {
			r.Log.Error("conversation store", "error", err)
		}
	}
}

// purge removes what is kept no longer.
func (r *Runs) purge(ctx context.Context) error {
	now := r.Now()
	err := r.Writes.Purge(ctx, now, r.Retention)
	if r.Ledger == nil || r.LedgerFor == 0 {
		return err
	}
	return errors.Join(err, r.Ledger.Purge(ctx, now.Add(-r.LedgerFor)))
}

// bounded runs f with the time that the store may take.
func (r *Runs) bounded(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.ctx, StoreWait)
	defer cancel()
	return f(ctx)
}

// recoverAbandoned marks what dead processes left.
func (r *Runs) recoverAbandoned(ctx context.Context) error {
	left, err := r.Writes.Recover(ctx, r.Now())
	if n := len(left.Answers) + len(left.Responses); n > 0 {
		r.Log.Warn("answers of a dead process marked incomplete", "answers", len(left.Answers),
			"responses", len(left.Responses))
	}
	return err
}

// Go runs f without a client. It is waited for when the server stops.
func (r *Runs) Go(f func()) error {
	r.closing.Lock()
	defer r.closing.Unlock()
	if r.closed {
		return parley.Errorf(parley.Unavailable, "The server is shutting down. Try again later.")
	}
	r.work.Go(f)
	return nil
}

// Detach returns an exchange and a job that continue when those of a client have ended,
// under the same names and in the same slot, until the server stops or the function is
// called that comes with them.
func (r *Runs) Detach(
	x *exchange.Exchange, j *job.Job,
) (alone *exchange.Exchange, next *job.Job, end context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.Request.Context()))
	stopped := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	next, ended := j.Continue(ctx, cancel)
	return x.Alone(ctx, next.Record), next, func(why error) {
		stopped()
		ended(why)
	}
}

// Within returns what runs of a caller begin in: the store within its quota.
func (r *Runs) Within(q convo.Quota) Store {
	if q == (convo.Quota{}) {
		return r.Writes
	}
	return r.Store.Within(q)
}

// Wait blocks until nothing runs without a client.
func (r *Runs) Wait() { r.work.Wait() }

// Close waits for work until ctx ends, then stops it.
func (r *Runs) Close(ctx context.Context) {
	r.closing.Lock()
	r.closed = true
	r.closing.Unlock()
	stopped := context.AfterFunc(ctx, func() { r.stop(exchange.ErrStopping) })
	r.Wait()
	stopped()
	if err := r.flush(ctx); err != nil {
		r.Log.Error("answers not stored; resumable", "error", err)
	}
	r.stop(exchange.ErrStopping)
	r.loop.Wait()
}

// CancelWait is how long a cancellation waits to see a run end.
const CancelWait = 5 * time.Second

// PollEvery is how often the store is asked for news of what another process
// computes.
const PollEvery = 500 * time.Millisecond

// AwaitNews waits until there may be news of a run: here, or in another process.
func (r *Runs) AwaitNews(ctx context.Context, id string) error {
	timer := time.NewTimer(PollEvery)
	defer timer.Stop()
	select {
	case <-r.Changed(id):
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
