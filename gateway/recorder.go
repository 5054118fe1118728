package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"parley/gateway/convo"
)

// recordEvery is how long events wait to be stored together: what a crash can
// cost, and what a stream that is taken up again may lag behind.
const recordEvery = 200 * time.Millisecond

// A recorder stores the events of a response while it is computed, without
// holding it up.
type recorder struct {
	keeper *keeper
	owner  convo.Owner
	id     string
	// cancel ends the computation if the store says so.
	cancel context.CancelCauseFunc
	done   chan struct{}
	once   sync.Once
	loop   sync.WaitGroup

	mu sync.Mutex
	// pending are events that are not stored, first the number of the first.
	pending []json.RawMessage
	first   int64
}

// record starts a recorder for a response that was just created.
func (k *keeper) record(owner convo.Owner, id string, cancel context.CancelCauseFunc) *recorder {
	r := &recorder{
		keeper: k,
		owner:  owner,
		id:     id,
		cancel: cancel,
		done:   make(chan struct{}),
	}
	r.loop.Go(r.run)
	return r
}

// add takes events that follow those it has.
func (r *recorder) add(events []json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, events...)
}

func (r *recorder) run() {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-tick.C:
		}
		err := r.store(context.Background())
		switch {
		case errors.Is(err, convo.ErrTaken), errors.Is(err, convo.ErrNotFound), errors.Is(err, convo.ErrFull):
			r.cancel(err)
			return
		case err != nil:
			r.keeper.log.Warn("events wait for the conversation store", "id", r.id, "error", err)
		}
	}
}

// store writes what is pending, as much as goes at once.
func (r *recorder) store(ctx context.Context) error {
	batch := r.batch()
	if len(batch.Events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	progress, err := r.keeper.store.AppendEvents(ctx, r.owner, r.id, batch)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.pending, r.first = r.pending[len(batch.Events):], r.first+int64(len(batch.Events))
	r.mu.Unlock()
	r.keeper.tell(r.id)
	if progress.CancelAsked {
		r.cancel(errCancelAsked)
	}
	return nil
}

// batch is what would be stored next.
func (r *recorder) batch() convo.EventBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.pending), convo.EventBatchMax)
	return convo.EventBatch{Process: r.keeper.process, First: r.first, Events: r.pending[:n:n]}
}

// close ends the recorder and returns the last events, which are to be stored
// with the outcome. Called again, it returns what has come since.
func (r *recorder) close(ctx context.Context) (convo.EventBatch, error) {
	r.once.Do(func() { close(r.done) })
	r.loop.Wait()
	for len(r.pending) > convo.EventBatchMax {
		if err := r.store(ctx); err != nil {
			return convo.EventBatch{}, err
		}
	}
	return r.batch(), nil
}
