package runs

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"parley/gateway/convo"
)

// checkpointEvery is how much of an answer in a conversation a crash can cost.
const checkpointEvery = 500 * time.Millisecond

// A Checkpointer stores what there is of an answer while it grows.
type Checkpointer struct {
	done chan struct{}
	once sync.Once
	loop sync.WaitGroup
}

// Checkpoint starts to store what content returns, whenever that has changed.
// lost is called if the answer is not ours to write any more.
func (r *Runs) Checkpoint(owner convo.Owner, id convo.AnswerID, content func() (json.RawMessage, bool),
	lost func(error)) *Checkpointer {
	p := &Checkpointer{done: make(chan struct{})}
	p.loop.Go(func() {
		tick := time.NewTicker(checkpointEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-tick.C:
			}
			raw, changed := content()
			if !changed {
				continue
			}
			err := r.bounded(func(ctx context.Context) error { return r.Writes.Checkpoint(ctx, owner, id, raw) })
			switch {
			case errors.Is(err, convo.ErrTaken), errors.Is(err, convo.ErrNotFound), errors.Is(err, convo.ErrFull):
				lost(err)
				return
			case err != nil:
				r.Log.Warn("answer waits for the conversation store", "id", id.Message, "error", err)
			}
		}
	})
	return p
}

// Stop returns when nothing more will be stored. It may be called again.
func (p *Checkpointer) Stop() {
	p.once.Do(func() { close(p.done) })
	p.loop.Wait()
}
