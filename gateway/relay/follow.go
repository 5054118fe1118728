package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley"

	"github.com/redis/go-redis/v9"
)

// A Follow is an answer that another gateway computes.
type Follow struct {
	relay *Redis
	place lease
	last  string // the entry that was read last
	next  int    // the number of the one after it
	once  sync.Once
}

// Close ends the following.
func (f *Follow) Close() { f.once.Do(func() { <-f.relay.follows }) }

// Next waits for more of the answer. With the last of it comes a state other than
// Going; after an error nothing more comes.
func (f *Follow) Next(ctx context.Context) (deltas []parley.Delta, s State, err error) {
	for ctx.Err() == nil {
		if deltas, s, err = f.read(ctx, readFor); err != nil || s != Going || len(deltas) > 0 {
			return deltas, s, err
		}
		leader, err := f.relay.client.Get(ctx, f.place.lead).Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return nil, Lost, err
		case leader == f.place.id:
			continue
		}
		// It may have ended well between the two commands.
		if deltas, s, err = f.read(ctx, -1); err != nil || s != Going || len(deltas) > 0 {
			return deltas, s, err
		}
		return nil, Lost, nil
	}
	return nil, Going, context.Cause(ctx)
}

// read returns what the stream has after what was read, waiting for it if there is
// nothing yet.
func (f *Follow) read(ctx context.Context, wait time.Duration) (deltas []parley.Delta, s State, err error) {
	args := &redis.XReadArgs{Streams: []string{f.place.stream, f.last}, Count: readMost, Block: wait}
	streams, err := f.relay.client.XRead(ctx, args).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(streams) == 0 {
		return nil, Going, nil
	}
	if err != nil {
		return nil, Lost, err
	}
	for _, m := range streams[0].Messages {
		text, _ := m.Values["e"].(string)
		e, err := f.relay.decode(&f.place, text)
		if err != nil || e.Number != f.next {
			return deltas, Lost, errors.Join(err, errForeign)
		}
		deltas = append(deltas, e.Deltas...)
		f.last, f.next, s = m.ID, f.next+1, e.End
	}
	return deltas, s, nil
}
