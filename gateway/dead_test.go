package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"parley/gateway/convo"
)

// A mute store is what a process that was killed has: from then on nothing of
// what it says arrives.
type mute struct {
	convo.Store
	dead atomic.Bool
}

var errDead = errors.New("this process is dead")

func (m *mute) Beat(ctx context.Context, process string, until time.Time) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Store.Beat(ctx, process, until)
}

func (m *mute) AppendEvents(ctx context.Context, owner convo.Owner, id string, b convo.EventBatch) (convo.Progress, error) {
	if m.dead.Load() {
		return convo.Progress{}, errDead
	}
	return m.Store.AppendEvents(ctx, owner, id, b)
}

func (m *mute) FinishResponse(ctx context.Context, owner convo.Owner, id string, o convo.ResponseOutcome, now time.Time) (convo.Response, error) {
	if m.dead.Load() {
		return convo.Response{}, errDead
	}
	return m.Store.FinishResponse(ctx, owner, id, o, now)
}
