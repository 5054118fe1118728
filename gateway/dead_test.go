package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/gateway/convo"
	"parley/gateway/runs"
)

// A mute store is what a process that was killed has: from then on nothing of
// what it says arrives.
type mute struct {
	runs.Store
	dead atomic.Bool
	// away is what it says instead; nil for errDead.
	away error
}

func (m *mute) why() error {
	if m.away != nil {
		return m.away
	}
	return errDead
}

var errDead = errors.New("this process is dead")

func (m *mute) Heartbeat(ctx context.Context, process string, until time.Time) error {
	if m.dead.Load() {
		return m.why()
	}
	return m.Store.Heartbeat(ctx, process, until)
}

func (m *mute) AppendEvents(ctx context.Context, owner convo.Owner, id string,
	b convo.EventBatch) (convo.Progress, error) {
	if m.dead.Load() {
		return convo.Progress{}, m.why()
	}
	return m.Store.AppendEvents(ctx, owner, id, b)
}

func (m *mute) FinishResponse(ctx context.Context, owner convo.Owner, id string, o convo.ResponseOutcome,
	now time.Time) (convo.Response, error) {
	if m.dead.Load() {
		return convo.Response{}, m.why()
	}
	return m.Store.FinishResponse(ctx, owner, id, o, now)
}
