package host

import (
	"context"
	"errors"
	"iter"
	"time"

	"parley"
	"parley/model/weights"
)

// A Title is one model of a library. It implements [parley.Worker].
type Title struct {
	*Front
	library *Library
	open    func() (*weights.Checkpoint, error)
	config  Config
	// need is what it takes when it is loaded.
	need int64
	// refusal says why it can never be loaded here; nil if it can.
	refusal error

	// What follows is guarded by the library.
	host     *Host
	metrics  *unregisterer
	loading  bool
	closing  bool
	retiring bool
	removed  bool
	users    int
	waiters  int
	used     time.Time
	keep     *time.Duration // how long it stays loaded when it is idle; nil is as the others
	failure  error          // of the last load
	loadedAt time.Time      // when a load last ended
}

var _ parley.Worker = (*Title)(nil)

func (t *Title) stateName() string {
	switch {
	case t.refusal != nil:
		return "too large"
	case t.loading:
		return "loading"
	case t.closing || t.host != nil && t.retiring:
		return "unloading"
	case t.host != nil:
		return "loaded"
	}
	return "unloaded"
}

// Load brings the model into memory; ctx bounds the wait, not the load.
func (t *Title) Load(ctx context.Context) error {
	_, err := t.acquire(ctx, func() bool { return true })
	if err == nil {
		t.release()
	}
	return err
}

// Unload frees the memory of the model as soon as it answers nothing.
func (t *Title) Unload() {
	t.library.mu.Lock()
	t.retiring = t.host != nil
	t.library.mu.Unlock()
	t.unloadIdle()
}

// KeepAlive changes how long the model stays in memory when it is idle, until it is changed
// again; less than 0 is for ever.
func (t *Title) KeepAlive(d time.Duration) {
	t.library.mu.Lock()
	defer t.library.mu.Unlock()
	t.keep = &d
}

// Residency returns whether the model is being loaded or waits for room, and when it was loaded.
func (t *Title) Residency() parley.Residency {
	t.library.mu.Lock()
	defer t.library.mu.Unlock()
	return parley.Residency{Loading: t.loading, Waiting: t.host == nil && t.waiters > 0, Loaded: t.loadedAt}
}

// Residence returns what the model takes of memory and until when, if it stays idle: the
// zero time is for ever. It reports whether the model is loaded.
func (t *Title) Residence() (bytes int64, until time.Time, loaded bool) {
	l := t.library
	l.mu.Lock()
	defer l.mu.Unlock()
	if keep := t.keepAlive(l.cfg.KeepAlive); keep >= 0 {
		until = t.used.Add(keep)
		if t.users > 0 {
			until = l.cfg.Now().Add(keep)
		}
	}
	return t.need, until, t.host != nil
}

// keepAlive returns how long the model is kept, which is usual unless it has a time of its
// own. The library's lock is held.
func (t *Title) keepAlive(usual time.Duration) time.Duration {
	if t.keep != nil {
		return *t.keep
	}
	return usual
}

// Models lists the one model.
func (t *Title) Models() []parley.Model {
	return []parley.Model{{ID: t.Name, ContextTokens: t.ContextTokens}}
}

// Generate loads the model if it is not, and answers.
func (t *Title) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		left := false
		h, err := t.acquire(ctx, func() bool {
			if r.Progress {
				wait := &parley.Progress{Waiting: true, Loading: true, PromptTokens: len(r.Prompt)}
				left = !yield(parley.Delta{Progress: wait}, nil)
			}
			return !left
		})
		switch {
		case left:
			return
		case err != nil:
			yield(parley.Delta{}, err)
			return
		}
		defer t.release()
		for d, err := range h.Generate(ctx, r) {
			if !yield(d, err) {
				return
			}
		}
	}
}

// acquire returns the loaded model, which stays loaded until release. While it waits it
// calls waiting, which returns false to give up.
func (t *Title) acquire(ctx context.Context, waiting func() bool) (*Host, error) {
	l := t.library
	tick := time.NewTicker(noticeEvery)
	defer tick.Stop()
	since := l.cfg.Now()
	l.enqueue(t)
	defer l.dequeue(t)
	for {
		h, changed, err := t.tryAcquire(since)
		if h != nil || err != nil {
			return h, err
		}
		if !waiting() {
			return nil, errLeft
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryAcquire takes the model if it is loaded, and begins to load it if there is room.
// changed is closed when it is worth to try again.
func (t *Title) tryAcquire(since time.Time) (h *Host, changed <-chan struct{}, err error) {
	l := t.library
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case t.refusal != nil:
		return nil, nil, t.refusal
	case l.closed || t.removed:
		return nil, nil, parley.Errorf(parley.NotFound, "The model %s was removed.", t.Name)
	case t.host != nil && !t.retiring:
		t.users++
		return t.host, nil, nil
	case t.failure != nil && t.used.After(since):
		return nil, nil, t.failure
	case t.loading || t.closing || t.host != nil:
		return nil, l.changed, nil
	}
	room, err := l.room()
	if err != nil {
		return nil, nil, err
	}
	plan, ok := makeRoom(l.loaded(), room, t.need, l.cfg.Now().Sub(since) < l.cfg.Patience)
	if l.waiting[0] != t && (!ok || len(plan.unload) > 0) { // others have waited for longer
		return nil, l.changed, nil
	}
	for _, other := range plan.retire {
		other.retiring = other.host != nil // one that comes or goes is asked again
	}
	if !ok {
		return nil, l.changed, nil
	}
	t.loading = true
	l.memory = append(l.memory, t)
	closing := takeHosts(plan.unload)
	l.loads.Go(func() { t.load(closing) })
	return nil, l.changed, nil
}

// load frees what has to leave, and brings the model into memory.
func (t *Title) load(leaving []func() error) {
	l := t.library
	for _, leave := range leaving {
		if err := leave(); err != nil {
			l.cfg.Log.Error("unload failed", "error", err)
		}
	}
	began := l.cfg.Now()
	metrics := &unregisterer{to: l.cfg.Registry}
	h, err := t.start(metrics)
	if err != nil {
		metrics.unregister()
		l.cfg.Log.Error("model load failed", "model", t.Name, "error", err)
		err = parley.Errorf(parley.Unavailable, "The model %s could not be loaded: %v", t.Name, err)
	} else {
		l.cfg.Log.Info("model loaded", "model", t.Name, "bytes", t.need, "took", l.cfg.Now().Sub(began))
	}
	l.mu.Lock()
	t.loading, t.failure, t.used = false, err, l.cfg.Now()
	t.loadedAt = t.used
	t.host, t.metrics, t.retiring = h, metrics, false
	removed := t.removed
	l.signal()
	l.mu.Unlock()
	if err != nil {
		l.forget(t)
	}
	if removed {
		t.unloadIdle()
	}
}

func (t *Title) start(metrics *unregisterer) (*Host, error) {
	ck, err := t.open()
	if err != nil {
		return nil, err
	}
	cfg := t.config.registering(metrics)
	plans, err := PlanMemory([]Candidate{{ck, cfg}}, max(t.need, t.library.cfg.Budget))
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	h, err := Start(plans[0])
	if err != nil {
		return nil, errors.Join(err, ck.Close())
	}
	return h, nil
}

// takeHosts takes idle models out of their titles, so that they can be closed without the
// lock. The lock is held.
func takeHosts(titles []*Title) (closing []func() error) {
	for _, t := range titles {
		h, metrics := t.host, t.metrics
		t.host, t.metrics, t.retiring, t.closing = nil, nil, false, true
		closing = append(closing, func() error {
			metrics.unregister()
			err := h.Close()
			t.library.forget(t)
			return err
		})
	}
	return closing
}

// release lets go of the model after a request.
func (t *Title) release() {
	l := t.library
	l.mu.Lock()
	t.users--
	t.used = l.cfg.Now()
	idle := t.users == 0
	if idle {
		l.signal()
	}
	leaves := idle && (t.retiring || t.removed)
	l.mu.Unlock()
	if leaves {
		t.unloadIdle()
	}
}

// unloadIdle frees the memory of the model if it answers nothing.
func (t *Title) unloadIdle() {
	l := t.library
	l.mu.Lock()
	if t.host == nil || t.users > 0 {
		l.mu.Unlock()
		return
	}
	closing := takeHosts([]*Title{t})
	l.mu.Unlock()
	if err := closing[0](); err != nil {
		l.cfg.Log.Error("unload failed", "model", t.Name, "error", err)
	}
	l.cfg.Log.Info("model unloaded", "model", t.Name)
}

// remove notes that no more requests will come. The library is locked, as for what follows.
func (t *Title) remove() { t.removed = true }

// wait counts requests that wait for the model.
func (t *Title) wait(more int) (waiters int) {
	t.waiters += more
	return t.waiters
}

// closed notes that its memory is free.
func (t *Title) closed() { t.closing = false }
