package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/ledger"
)

// How a process shows the store that it lives. What it was writing is taken
// for abandoned when it has not for aliveFor.
const (
	beatEvery  = 5 * time.Second
	aliveFor   = 15 * time.Second
	purgeEvery = time.Hour
	storeWait  = 10 * time.Second
)

// A keeper holds what lives longer than one call: the store, the name of this
// process in it, and the work that goes on without a client.
type keeper struct {
	store convo.Store
	// ledger is nil if none is kept.
	ledger    *ledger.Ledger
	retention Retention
	process   string
	now       func() time.Time
	log       *slog.Logger
	// ctx ends when work must stop.
	ctx  context.Context
	stop context.CancelCauseFunc
	work sync.WaitGroup
	loop sync.WaitGroup

	// beating guards what the store was told last, and how many write.
	beating    sync.Mutex
	aliveUntil time.Time
	writing    int

	mu   sync.Mutex
	runs map[string]*run
	// debts are the outcomes that the store has not taken yet.
	debts  map[string]debt
	closed bool
}

// A run is a response, or an answer in a conversation, that is this process's
// to write now.
type run struct {
	// cancel is nil until it is computed.
	cancel context.CancelCauseFunc
	// changed is closed when events were stored, and made anew.
	changed chan struct{}
	// turn is set if it is an answer in a conversation.
	turn *turn
}

// newKeeper takes up what earlier processes left. Without a store it is nil.
func newKeeper(config *Config) (*keeper, error) {
	if config.Store == nil {
		return nil, nil
	}
	k := &keeper{
		store:     config.Store,
		ledger:    config.Ledger,
		retention: config.Retention,
		process:   "parley_" + randomSuffix(),
		now:       config.Now,
		log:       config.Log,
		runs:      map[string]*run{},
		debts:     map[string]debt{},
	}
	k.ctx, k.stop = context.WithCancelCause(context.Background())
	if err := k.recover(); err != nil {
		return nil, fmt.Errorf("conversation store: %w", err)
	}
	k.loop.Go(k.keep)
	return k, nil
}

// keep says again and again that this process lives, while it writes, and
// looks after what others left.
func (k *keeper) keep() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	purged := k.now()
	for {
		select {
		case <-k.ctx.Done():
			return
		case <-tick.C:
		}
		err := errors.Join(k.beatIfWriting(), k.bounded(k.pay), k.recover())
		if now := k.now(); now.Sub(purged) >= purgeEvery {
			purged = now
			err = errors.Join(err, k.bounded(k.purge))
		}
		if err != nil && k.ctx.Err() == nil {
			k.log.Error("conversation store", "error", err)
		}
	}
}

// purge removes what is kept no longer.
func (k *keeper) purge(ctx context.Context) error {
	now, keep := k.now(), k.retention
	err := k.store.Purge(ctx, now, convo.Retention{Conversations: keep.Conversations, Responses: keep.Responses})
	if k.ledger == nil || keep.Ledger == 0 {
		return err
	}
	return errors.Join(err, k.ledger.Purge(ctx, now.Add(-keep.Ledger)))
}

// bounded runs f with the time that the store may take.
func (k *keeper) bounded(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(k.ctx, storeWait)
	defer cancel()
	return f(ctx)
}

// recover marks what dead processes left.
func (k *keeper) recover() error {
	return k.bounded(func(ctx context.Context) error {
		left, err := k.store.Recover(ctx, k.now())
		if n := len(left.Answers) + len(left.Responses); n > 0 {
			k.log.Warn("answers of a process that is gone were left incomplete", "answers", len(left.Answers),
				"responses", len(left.Responses))
		}
		return err
	})
}

// enter makes sure that the store takes this process for alive until leave.
func (k *keeper) enter(ctx context.Context) error {
	k.beating.Lock()
	defer k.beating.Unlock()
	if k.aliveUntil.Sub(k.now()) < aliveFor-beatEvery {
		if err := k.beat(ctx); err != nil {
			return err
		}
	}
	k.writing++
	return nil
}

func (k *keeper) leave() {
	k.beating.Lock()
	defer k.beating.Unlock()
	k.writing--
}

// beat is called with beating held.
func (k *keeper) beat(ctx context.Context) error {
	until := k.now().Add(aliveFor)
	if err := k.store.Beat(ctx, k.process, until); err != nil {
		return err
	}
	k.aliveUntil = until
	return nil
}

func (k *keeper) beatIfWriting() error {
	k.beating.Lock()
	defer k.beating.Unlock()
	if k.writing == 0 {
		return nil
	}
	return k.bounded(k.beat)
}

// retryEvery is how long a store that cannot be reached is left alone.
const retryEvery = 250 * time.Millisecond

// persist runs f, which must arrive whether the client of ctx is still there or
// not, until the store can be reached or storeWait is over.
func persist(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeWait)
	defer cancel()
	var away error
	for {
		err := f(ctx)
		if away != nil && parley.CodeOf(err) == parley.DeadlineExceeded {
			return away // says more than that the time is over
		}
		if !unreached(err) {
			return err
		}
		away = err
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

// unreached reports whether err says that the store could not be reached.
func unreached(err error) bool {
	return parley.CodeOf(err) == parley.Unavailable && !errors.Is(err, convo.ErrTaken) && !errors.Is(err,
		convo.ErrNotAlive)
}

// detached runs f without a client. It is waited for when the server stops.
func (k *keeper) detached(f func()) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return parley.Errorf(parley.Unavailable, "The server is shutting down. Try again later.")
	}
	k.work.Go(f)
	return nil
}

// claim makes an answer or a response the caller's to write, until end; false
// if somebody in this process has it. What the store says this process writes,
// and nobody has claimed, is abandoned.
func (k *keeper) claim(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs[id] != nil {
		return false
	}
	k.runs[id] = &run{changed: make(chan struct{})}
	return true
}

// begin notes what ends the computation of something that was claimed.
func (k *keeper) begin(id string, cancel context.CancelCauseFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs[id].cancel = cancel
}

// end gives up a claim, except where the store must still hear the outcome.
func (k *keeper) end(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, owed := k.debts[id]; !owed {
		k.drop(id)
	}
}

// drop is called with mu held.
func (k *keeper) drop(id string) {
	if r := k.runs[id]; r != nil {
		delete(k.runs, id)
		close(r.changed)
	}
}

// cancel ends a response, if it is computed here.
func (k *keeper) cancel(id string, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.runs[id]; r != nil && r.cancel != nil {
		r.cancel(why)
	}
}

// tell wakes those who follow a response.
func (k *keeper) tell(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.runs[id]; r != nil {
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

// changed is closed when there is news of a response; nil if it is computed
// elsewhere or not at all.
func (k *keeper) changed(id string) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.runs[id]; r != nil {
		return r.changed
	}
	return nil
}

// close waits for work until ctx ends, then stops it.
func (k *keeper) close(ctx context.Context) {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	waitOr(ctx, &k.work, func() { k.stop(exchange.ErrStopping) })
	if err := k.pay(ctx); err != nil {
		k.log.Error("answers were not stored; they can be taken up again", "error", err)
	}
	k.stop(exchange.ErrStopping)
	k.loop.Wait()
}

// waitOr waits for group, and calls stop if ctx ends before that.
func waitOr(ctx context.Context, group *sync.WaitGroup, stop func()) {
	defer context.AfterFunc(ctx, stop)()
	group.Wait()
}

// Close waits until ctx ends for answers that the HTTP server does not know
// of, on WebSockets and in the background; then it stops them, and lets go of
// the store. Nothing is left running.
func (g *Gateway) Close(ctx context.Context) {
	g.Drain()
	g.batches.running.Wait()
	g.sockets.connections.Close(ctx, exchange.ErrStopping)
	if g.keeper != nil {
		g.keeper.close(ctx)
	}
}
