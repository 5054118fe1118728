package runs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"parley/gateway/convo"
)

// checkpointEvery is how much of an answer in a conversation a crash can cost, unless more
// answers are written than the store keeps up with.
const checkpointEvery = 500 * time.Millisecond

// A Checkpointer stores what there is of an answer while it grows.
type Checkpointer struct{ *periodicWrite }

// Checkpoint starts to store what content returns, whenever that has changed.
// lost is called if the answer is not ours to write any more.
func (r *Runs) Checkpoint(owner convo.Owner, id convo.AnswerID, content func() (json.RawMessage, bool),
	lost func(error)) Checkpointer {
	return Checkpointer{r.periodically(checkpointEvery, func() (again bool) {
		raw, changed := content()
		if !changed {
			return true
		}
		err := r.bounded(func(ctx context.Context) error { return r.Writes.Checkpoint(ctx, owner, id, raw) })
		switch {
		case errors.Is(err, convo.ErrTaken), errors.Is(err, convo.ErrNotFound), errors.Is(err, convo.ErrFull):
			lost(err)
			return false
		case err != nil:
			r.Log.Warn("answer waits for the conversation store", "id", id.Message, "error", err)
		}
		return true
	})}
}

// Stop returns when nothing more will be stored. It may be called again.
func (p Checkpointer) Stop() { p.stop() }
