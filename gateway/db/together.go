package db

import (
	"context"
	"errors"
	"sync"
)

// TogetherMax is how many small writes one transaction has at most: others wait for it.
const TogetherMax = 64

// A writeGroup collects small writes of SQLite, where a commit costs far more than what it writes.
type writeGroup struct {
	mu      sync.Mutex
	waiting []*smallWrite
	// writing is set while a goroutine writes.
	writing bool
}

// A smallWrite waits for a transaction that it shares with others.
type smallWrite struct {
	ctx  context.Context
	do   func(*Tx) error
	err  error
	done chan struct{}
	// panicked is what do panicked with. Only its own caller panics with it.
	panicked any
}

// errNotRun is the outcome of a write that was given up with the batch that it was in.
var errNotRun = errors.New("db: the transaction that the write shared was abandoned")

// WriteTogether is Write for a small write, of which many come at once: those that come while SQLite
// writes are one transaction, from which one that fails, panics or was cancelled is left out. When it
// returns, do is not run again.
func (d *DB) WriteTogether(ctx context.Context, do func(*Tx) error) error {
	if d.kind != SQLite {
		return d.Write(ctx, do)
	}
	w := &smallWrite{ctx: ctx, do: do, err: errNotRun, done: make(chan struct{})}
	g := &d.group
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	first := !g.writing
	g.writing = true
	g.mu.Unlock()
	if first {
		d.writeBatch()
	}
	<-w.done
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.err
}

// run runs do, which other writes share a goroutine and a transaction with.
func (w *smallWrite) run(t *Tx) (err error) {
	defer func() {
		if w.panicked = recover(); w.panicked != nil {
			err = errNotRun
		}
	}()
	return w.do(t)
}

// hasMore reports whether writes wait. If none do, the next that comes is the first again.
func (d *DB) hasMore() bool {
	d.group.mu.Lock()
	defer d.group.mu.Unlock()
	d.group.writing = len(d.group.waiting) > 0
	return d.group.writing
}

// writeBatch writes what waits, at most TogetherMax, and leaves the rest to another goroutine: no caller works for long
// for others. However it ends, all of the batch have an answer, and what waits is written.
func (d *DB) writeBatch() {
	d.group.mu.Lock()
	n := min(len(d.group.waiting), TogetherMax)
	batch := d.group.waiting[:n:n]
	d.group.waiting = d.group.waiting[n:]
	d.group.mu.Unlock()
	defer func() {
		for _, w := range batch {
			close(w.done)
		}
		if d.hasMore() {
			go d.writeBatch()
		}
	}()
	var left []*smallWrite
	for _, w := range batch {
		if err := w.ctx.Err(); err != nil {
			w.err = d.explain(w.ctx, err)
		} else {
			left = append(left, w)
		}
	}
	for len(left) > 0 {
		left = d.writeAll(left)
	}
}

// writeAll writes a batch in one transaction, or nothing of it. If one of the writes fails, it has its error, and
// the others are returned, to be tried again without it. What can be cancelled costs SQLite a goroutine for each
// statement, so only a write that is alone is; the limit on waiting bounds the others.
func (d *DB) writeAll(batch []*smallWrite) (left []*smallWrite) {
	if len(batch) == 1 {
		w := batch[0]
		w.err = d.Write(w.ctx, w.run)
		return nil
	}
	var at *smallWrite // that is being run
	err := d.Write(context.Background(), func(t *Tx) error {
		for _, at = range batch {
			if err := at.run(t); err != nil {
				return err
			}
		}
		at = nil
		return nil
	})
	for _, w := range batch {
		if w == at || at == nil || d.unavailable(err) {
			w.err = err
		} else {
			left = append(left, w)
		}
	}
	return left
}
