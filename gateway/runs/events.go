package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/gateway/convo"
)

// recordEvery is how long events wait to be stored together: what a crash can
// cost, and what a stream that is taken up again may lag behind.
const recordEvery = 200 * time.Millisecond

// ErrCancelled ends a response whose client does not want it any more.
var ErrCancelled = parley.Errorf(parley.Cancelled, "The response was cancelled.")

// An EventLog stores the events of a response while it is computed, without
// holding it up.
type EventLog struct {
	runs  *Runs
	owner convo.Owner
	id    string
	// cancel ends the computation if the store says so.
	cancel context.CancelCauseFunc
	writes *periodicWrite

	mu sync.Mutex
	// pending are events that are not stored, first the number of the first.
	pending []json.RawMessage
	first   int64
}

// Record starts an event log for a response that was just created.
func (r *Runs) Record(owner convo.Owner, id string, cancel context.CancelCauseFunc) *EventLog {
	l := &EventLog{runs: r, owner: owner, id: id, cancel: cancel}
	l.writes = r.periodically(recordEvery, l.write)
	return l
}

// Add takes events that follow those it has.
func (l *EventLog) Add(events []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, events...)
}

// write stores what is pending. It reports whether more may be.
func (l *EventLog) write() (again bool) {
	err := l.store(context.Background())
	switch {
	case errors.Is(err, convo.ErrTaken), errors.Is(err, convo.ErrNotFound), errors.Is(err, convo.ErrFull):
		l.cancel(err)
		return false
	case err != nil:
		l.runs.Log.Warn("events wait for the conversation store", "id", l.id, "error", err)
	}
	return true
}

// store writes what is pending, as much as goes at once.
func (l *EventLog) store(ctx context.Context) error {
	batch := l.batch()
	if len(batch.Events) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, StoreWait)
	defer cancel()
	progress, err := l.runs.Writes.AppendEvents(ctx, l.owner, l.id, batch)
	if err != nil {
		return err
	}
	l.mu.Lock()
	// A copy: the array of the old slice would keep what is stored.
	l.pending, l.first = slices.Clone(l.pending[len(batch.Events):]), l.first+int64(len(batch.Events))
	l.mu.Unlock()
	l.runs.Notify(l.id)
	if progress.CancelAsked {
		l.cancel(ErrCancelled)
	}
	return nil
}

// batch is what would be stored next.
func (l *EventLog) batch() convo.EventBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.pending), convo.EventBatchMax)
	return convo.EventBatch{Process: l.runs.Process, First: l.first, Events: l.pending[:n:n]}
}

// Close ends the log and returns the last events, which are to be stored
// with the outcome. Called again, it returns what has come since.
func (l *EventLog) Close(ctx context.Context) (convo.EventBatch, error) {
	l.writes.stop()
	for len(l.pending) > convo.EventBatchMax {
		if err := l.store(ctx); err != nil {
			return convo.EventBatch{}, err
		}
	}
	return l.batch(), nil
}
