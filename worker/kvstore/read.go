package kvstore

import (
	"context"
	"errors"
	"iter"
	"time"

	"parley"
	"parley/engine"
)

// Generate reads what the engine misses of a request from the store, and then has it computed;
// see [parley.Worker]. The first delta says what came, if the store was asked.
func (t *Backing) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		transfer := t.Fetch(ctx, r)
		said := transfer
		for d, err := range t.engine.Generate(ctx, r) {
			d.Transfer, said = said, nil
			if d.Usage != nil {
				d.Usage.Transfer = transfer
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// Fetch reads what the engine misses of a request, as far as it comes in time and is worth the
// wait. It ends early when the request is cancelled or wanted back. It returns nil if the store
// was not asked.
func (t *Backing) Fetch(ctx context.Context, r *parley.Request) *parley.Transfer {
	if len(r.Prompt) <= blocksLeast*t.format.BlockTokens {
		return nil
	}
	began := time.Now()
	cancelling, cancel := context.WithCancel(ctx)
	defer cancel()
	if w := parley.WithdrawalOf(ctx); w != nil {
		w.OnAsk(cancel)
		defer w.OnAsk(nil) // the engine heeds it from now on
	}
	in, err := t.engine.OpenIntake(cancelling, r, len(r.Prompt)+resumed(r))
	if err != nil || in == nil {
		return nil
	}
	defer in.Close()
	within, ok := t.store.weigh(lookup{len(in.Missing()), t.format.BlockBytes, in.BlockTime()})
	if !ok {
		t.store.meters.skipped("not worth it")
		return nil
	}
	if !t.store.reader.begin(began) {
		t.store.meters.skipped("unavailable")
		return nil
	}
	bounded, end := context.WithTimeout(cancelling, within)
	defer end()
	out := &parley.Transfer{From: t.store.place.name(), AskedTokens: len(in.Missing()) * t.format.BlockTokens}
	blocks, err := t.read(bounded, in)
	out.CameTokens, out.Bytes = blocks*t.format.BlockTokens, int64(blocks)*int64(t.format.BlockBytes)
	out.Took = time.Since(began)
	reason := missOf(bounded, err)
	t.store.reader.end(reason, err, time.Now())
	if out.Miss = reason; reason == "" && blocks < len(in.Missing()) {
		out.Miss = "not in the store"
	}
	t.store.meters.looked(out)
	return out
}

// resumed returns how many tokens of answers a request brings.
func resumed(r *parley.Request) (most int) {
	for i := range r.Resume {
		most = max(most, len(r.Resume[i].Tokens))
	}
	return most
}

// missOf returns why not all came that is there.
func missOf(ctx context.Context, err error) string {
	reason := reasonOf(ctx, err)
	if _, ours := errors.AsType[*putError](err); ours && reason == "too slow" {
		return "engine busy"
	} else if ours && reason != "cancelled" {
		return "no room"
	}
	return reason
}

// A putError is one of the engine that takes blocks.
type putError struct{ error }

func (e *putError) Unwrap() error { return e.error }

// weigh decides whether a lookup is made.
func (s *Store) weigh(q lookup) (within time.Duration, ok bool) {
	if s.cfg.Wait > 0 {
		return s.cfg.Wait, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.weigh(q)
}

// A window is blocks that were read, one after the other, in memory that is used again.
type window struct {
	room   []byte
	blocks int
}

// read reads blocks of an intake until one is not there. The first is asked for alone, so that
// nothing else is sent in vain for a prompt that the store does not know; then in windows of
// twice as many each time. While the engine takes one window, the next is read.
func (t *Backing) read(ctx context.Context, in *engine.Intake) (blocks int, err error) {
	select {
	case t.store.reads <- struct{}{}:
		defer func() { <-t.store.reads }()
	default:
		return 0, &fault{errBusy, errors.New("as many reads are under way as may be")}
	}
	stride := headBytes + t.format.BlockBytes
	most := max(1, min(windowBytes/stride, len(in.Missing())))
	t.store.held.Add(int64(2 * most * stride))
	defer t.store.held.Add(int64(-2 * most * stride))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full, free, failed := make(chan window), make(chan []byte, 2), make(chan error, 1)
	free <- make([]byte, most*stride)
	free <- make([]byte, most*stride)
	go func() {
		failed <- t.readAll(ctx, in.Missing(), free, full)
		close(full)
	}()
	for w := range full {
		if err := in.Put(ctx, w.room[:w.blocks*t.format.BlockBytes]); err != nil {
			cancel()
			for range full { // until the reader has ended
			}
			return blocks, &putError{err}
		}
		blocks += w.blocks
		free <- w.room
	}
	return blocks, <-failed
}

// readAll reads windows until a block is not there.
func (t *Backing) readAll(ctx context.Context, missing []parley.BlockHash, free <-chan []byte,
	full chan<- window) error {
	stride := headBytes + t.format.BlockBytes
	for size, first := 1, true; len(missing) > 0; size, first = 2*size, false {
		var room []byte
		select {
		case room = <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
		size = min(size, len(missing), len(room)/stride)
		began := time.Now()
		n, err := t.readWindow(ctx, missing[:size], room[:size*stride])
		if reason := reasonOf(ctx, err); reason == "" || reason == "damaged" {
			t.store.learn(first, n, n*stride, time.Since(began))
		}
		t.known.add(missing[:n])
		if n > 0 {
			select {
			case full <- window{room, n}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil || n < size {
			return err
		}
		missing = missing[n:]
	}
	return nil
}

// learn takes in how long a window took.
func (s *Store) learn(first bool, blocks, bytes int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.shown.answered(took, blocks > 0)
	} else if blocks > 0 {
		s.shown.moved(bytes, max(took-s.shown.latency, took/2))
	}
}

// readWindow reads blocks and leaves their payloads at the beginning of room, one after the other.
// What is damaged is removed from the store.
func (t *Backing) readWindow(ctx context.Context, names []parley.BlockHash, room []byte) (n int, err error) {
	keys := make([]string, len(names))
	for i := range names {
		keys[i] = keyOf(t.digest, &names[i])
	}
	came, err := t.store.place.read(ctx, keys, room)
	stride := len(room) / len(names)
	for n < came {
		payload, damaged := open(t.digest, &names[n], room[n*stride:(n+1)*stride])
		if damaged != nil {
			err = damaged
			break
		}
		copy(room[n*len(payload):], payload)
		n++
	}
	if errors.Is(err, errDamaged) {
		t.store.meters.damaged.Inc()
		t.known.drop(&names[n])
		_ = t.store.place.remove(ctx, keys[n]) // the next one that reads it tries again
	}
	return n, err
}
