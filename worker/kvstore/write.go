package kvstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"parley"
	"parley/engine"
	"parley/engine/kv"
	"parley/worker/kvwire"
)

const (
	// chanceLeast is the least chance of being used again that a block is written for.
	chanceLeast = 0.1
	// sweepEvery is how often the cache is looked through for blocks to write, if it has worked.
	sweepEvery = time.Second
	// sweepMost bounds how many blocks a sweep finds: the likeliest. renewMost is how many are
	// asked for at once.
	sweepMost = 8192
	renewMost = 64
)

// Behind puts the store behind an engine whose blocks have the given format, until Close.
func (s *Store) Behind(e *engine.Engine, format kvwire.Format) *Backing {
	ctx, stop := context.WithCancel(context.Background())
	t := &Backing{store: s, engine: e, format: format, stop: stop}
	t.digest, t.known.life = format.Digest(), s.cfg.Keep/2
	if s.cfg.Bandwidth > 0 {
		t.work.Go(func() { t.writeBack(ctx) })
	}
	return t
}

// Close ends the writing of blocks. It must be called before the engine is closed.
func (t *Backing) Close() {
	t.stop()
	t.work.Wait()
}

// writeBack writes blocks that are likely to be used again until ctx ends.
func (t *Backing) writeBack(ctx context.Context) {
	var done uint64 // passes before the last sweep that found nothing
	for ; ctx.Err() == nil; _ = sleep(ctx, sweepEvery) {
		passes := t.engine.Stats().Steps + 1
		if passes == done {
			continue
		}
		if rest := t.store.writer.rest(time.Now()); rest > 0 {
			_ = sleep(ctx, rest)
			continue
		}
		list, err := t.sweep(ctx)
		if err != nil {
			continue
		}
		if len(list) == 0 {
			done = passes
		}
		for some := range slices.Chunk(list, renewMost) {
			if !t.writeSome(ctx, some) {
				break
			}
		}
	}
}

// sweep returns blocks that are worth writing and not known to be in the store, the likeliest to
// be used first and each after the blocks before it.
func (t *Backing) sweep(ctx context.Context) (list []parley.BlockHash, err error) {
	var found []kv.Prospect
	s := engine.Sweep{Least: chanceLeast, Known: t.known.has}
	for whole := false; !whole; {
		if found, whole, err = s.Next(ctx, t.engine, found); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b kv.Prospect) int { return cmp.Compare(b.Chance, a.Chance) })
	for i := range found {
		if len(list) == sweepMost {
			break
		}
		list = append(list, found[i].Name)
	}
	return list, nil
}

// writeSome writes the blocks that the store lacks. It reports false if the store fails.
func (t *Backing) writeSome(ctx context.Context, some []parley.BlockHash) bool {
	if !t.store.writer.begin(time.Now()) {
		return false
	}
	written, err := t.writeMissing(ctx, some)
	reason := reasonOf(ctx, err)
	t.store.writer.end(reason, err, time.Now())
	if err != nil && ctx.Err() == nil {
		t.store.meters.wrote(reason, len(some)-written)
	}
	return err == nil
}

// writeMissing returns how many blocks were dealt with.
func (t *Backing) writeMissing(ctx context.Context, some []parley.BlockHash) (dealt int, err error) {
	keys := make([]string, len(some))
	for i := range some {
		keys[i] = keyOf(t.digest, &some[i])
	}
	asking, cancel := context.WithTimeout(ctx, writeMax)
	there, err := t.store.place.renew(asking, keys)
	cancel()
	if err != nil {
		return 0, err
	}
	value := make([]byte, headBytes+t.format.BlockBytes)
	t.store.held.Add(int64(len(value)))
	defer t.store.held.Add(int64(-len(value)))
	for i := range some {
		outcome := "there already"
		if !there[i] {
			if outcome, err = t.writeBlock(ctx, &some[i], keys[i], value); err != nil {
				return dealt, err
			}
		}
		if outcome != "evicted" {
			t.known.add(some[i : i+1])
		}
		t.store.meters.wrote(outcome, 1)
		dealt++
	}
	return dealt, nil
}

// writeBlock writes one block, if the engine still has it.
func (t *Backing) writeBlock(ctx context.Context, name *parley.BlockHash, key string,
	value []byte) (outcome string, err error) {
	if err := t.store.pace.wait(ctx, len(value)); err != nil {
		return "", err
	}
	bounded, cancel := context.WithTimeout(ctx, writeMax)
	defer cancel()
	n, err := t.engine.ReadBlocks(bounded, []parley.BlockHash{*name}, 0, value[headBytes:])
	if n < len(value)-headBytes || err != nil { // an engine that closes has no blocks
		return "evicted", nil
	}
	seal(t.digest, name, value)
	if err := t.store.place.write(bounded, key, value); err != nil {
		return "", err
	}
	t.store.meters.writtenBytes.Add(float64(len(value)))
	return "written", nil
}
