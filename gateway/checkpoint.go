package gateway

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

// A checkpointer stores what there is of an answer while it grows.
type checkpointer struct {
	done chan struct{}
	once sync.Once
	loop sync.WaitGroup
}

// checkpoint starts to store what content returns, whenever that has changed.
// Lost is called if the answer is not ours to write any more.
func (k *keeper) checkpoint(owner convo.Owner, id convo.AnswerID, content func() (json.RawMessage, bool),
	lost func(error)) *checkpointer {
	p := &checkpointer{done: make(chan struct{})}
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
			err := k.bounded(func(ctx context.Context) error { return k.store.Checkpoint(ctx, owner, id, raw) })
			switch {
			case errors.Is(err, convo.ErrTaken), errors.Is(err, convo.ErrNotFound), errors.Is(err, convo.ErrFull):
				lost(err)
				return
			case err != nil:
				k.log.Warn("an answer waits for the conversation store", "id", id.Message, "error", err)
			}
		}
	})
	return p
}

// stop returns when nothing more will be stored. It may be called again.
func (p *checkpointer) stop() {
	p.once.Do(func() { close(p.done) })
	p.loop.Wait()
}
