package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/compute"
	"parley/model/weights"
)

// A Library serves models that are loaded when they are asked for, and share a budget of
// memory. A model that is idle for long, or the one used least recently when another
// needs its room, is unloaded; never while it answers.
type Library struct {
	cfg LibraryConfig

	mu     sync.Mutex
	titles map[string]*Title
	// memory are the titles that hold memory, also if they were removed; waiting the ones
	// that requests wait for to be loaded, first come first.
	memory, waiting []*Title
	// changed is closed, and replaced, when something may have become possible.
	changed chan struct{}
	closed  bool
	loads   sync.WaitGroup
}

// A LibraryConfig says how models share the machine.
type LibraryConfig struct {
	// Budget is the memory, in bytes, that all loaded models may take together.
	Budget int64
	// KeepAlive is how long an idle model stays loaded; 0 means 5 minutes, less than 0 for
	// ever.
	KeepAlive time.Duration
	// Patience is how long a load waits for idle models before busy ones take no new
	// requests; 0 means 10 seconds.
	Patience time.Duration
	// Free returns how much memory there is at this moment; nil does not ask.
	Free func() (int64, error)
	// Registry takes the metrics of loaded models; nil keeps none.
	Registry prometheus.Registerer
	// Log receives loads and unloads.
	Log *slog.Logger
	// Now is the clock; nil is [time.Now].
	Now func() time.Time
}

const (
	keepAliveDefault = 5 * time.Minute
	patienceDefault  = 10 * time.Second
	// contextDefault bounds the context of models that share a machine, unless the
	// configuration says otherwise: each has a pool for one.
	contextDefault = 16 << 10
	// contextLeast is the shortest context that is worth loading a model for.
	contextLeast = 512
)

// NewLibrary returns an empty library. The caller runs [Library.Run] and closes it.
func NewLibrary(cfg LibraryConfig) *Library {
	if cfg.KeepAlive == 0 {
		cfg.KeepAlive = keepAliveDefault
	}
	if cfg.Patience == 0 {
		cfg.Patience = patienceDefault
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Library{cfg: cfg, titles: map[string]*Title{}, changed: make(chan struct{})}
}

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
}

var _ parley.Worker = (*Title)(nil)

// A TitleState is what a model of a library does at a time.
type TitleState struct {
	Name string `json:"name"`
	// State is unloaded, loading, loaded, unloading or too large.
	State string `json:"state"`
	// Bytes are what it takes, or would take, and ContextTokens what for.
	Bytes         int64 `json:"memory_bytes"`
	ContextTokens int   `json:"context_tokens"`
	// Users are the requests that it answers.
	Users int `json:"users"`
	// Used is when the last request ended; zero if there was none.
	Used time.Time `json:"used,omitzero"`
	// Problem says why it cannot be loaded, or why the last load failed.
	Problem string `json:"problem,omitempty"`
}

// Add makes a model known, which open opens. Its vocabulary is read at once, its weights
// when it is asked for. The context is what the configuration says, or less if the whole
// budget has no room for it.
func (l *Library) Add(cfg Config, open func() (*weights.Checkpoint, error)) (*Title, error) {
	ck, err := open()
	if err != nil {
		return nil, err
	}
	t := &Title{library: l, open: open, used: l.cfg.Now()}
	t.config, t.need, t.refusal = l.size(Candidate{ck, cfg})
	if t.Front, err = OpenFront(Candidate{ck, t.config}); err != nil { // which closes ck
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.titles[t.Name] != nil {
		return nil, fmt.Errorf("there is a model called %s", t.Name)
	}
	l.titles[t.Name] = t
	return t, nil
}

// size settles context and pool of a model, and what it takes in all.
func (l *Library) size(c Candidate) (cfg Config, need int64, refusal error) {
	cfg = c.Config.withDefaults(c.Checkpoint)
	p := newPlan(Candidate{c.Checkpoint, cfg})
	wanted := c.Checkpoint.Config.Context
	if cfg.ContextTokens > 0 {
		wanted = min(wanted, cfg.ContextTokens)
	} else {
		wanted = min(wanted, contextDefault)
	}
	fits := int((l.cfg.Budget-p.fixedBytes())/p.kvBytes(compute.BlockTokens)) * compute.BlockTokens
	cfg.ContextTokens = max(min(wanted, fits), 1)
	if cfg.KVTokens == 0 {
		cfg.KVTokens = cfg.ContextTokens
	}
	cfg.KVTokens = (cfg.KVTokens + compute.BlockTokens - 1) / compute.BlockTokens * compute.BlockTokens
	need = p.fixedBytes() + p.kvBytes(cfg.KVTokens)
	if fits < min(contextLeast, wanted) || need > l.cfg.Budget {
		refusal = parley.Invalid("model", "The model %s does not fit this machine: weights and activations need %s "+
			"and a context of %d tokens %s, and models may take %s together. A context of %d tokens would fit.",
			cfg.Name, Size(p.fixedBytes()), wanted, Size(p.kvBytes(wanted)), Size(l.cfg.Budget), max(fits, 0))
	}
	return cfg, need, refusal
}

// Remove forgets a model. Its memory is freed when the answers that it gives have ended.
func (l *Library) Remove(name string) {
	l.mu.Lock()
	t := l.titles[name]
	delete(l.titles, name)
	if t != nil {
		t.removed = true
	}
	l.mu.Unlock()
	if t != nil {
		t.unloadIdle()
	}
}

// States lists what the models do.
func (l *Library) States() (states []TitleState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.titles {
		s := TitleState{
			Name:          t.Name,
			State:         t.stateName(),
			Bytes:         t.need,
			ContextTokens: t.config.ContextTokens,
			Users:         t.users,
			Used:          t.used,
		}
		if err := errors.Join(t.refusal, t.failure); err != nil {
			s.Problem = err.Error()
		}
		states = append(states, s)
	}
	return states
}

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

// Load brings a model into memory; ctx bounds the wait, not the load.
func (l *Library) Load(ctx context.Context, name string) error {
	t, err := l.title(name)
	if err != nil {
		return err
	}
	return t.Load(ctx)
}

// Unload frees the memory of a model as soon as it answers nothing.
func (l *Library) Unload(name string) error {
	t, err := l.title(name)
	if err != nil {
		return err
	}
	t.Unload()
	return nil
}

func (l *Library) title(name string) (*Title, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.titles[name]; t != nil {
		return t, nil
	}
	return nil, parley.Errorf(parley.NotFound, "there is no model %q in the model folder", name)
}

// Run unloads models that are idle for long, until ctx ends.
func (l *Library) Run(ctx context.Context) {
	tick := time.NewTicker(max(min(l.cfg.KeepAlive/4, 10*time.Second), 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		idle := expired(l.loaded(), l.cfg.KeepAlive, l.cfg.Now())
		l.mu.Unlock()
		for _, t := range idle {
			t.unloadIdle()
		}
	}
}

// loaded lists what is in memory. The lock is held.
func (l *Library) loaded() (list []resident) {
	for _, t := range l.memory {
		r := resident{t, t.need, t.users, t.used}
		if t.host == nil { // which comes or goes, and is not to be disturbed
			r.users++
		}
		list = append(list, r)
	}
	return list
}

// Close unloads all models. No request may run any more, and Run must have returned.
func (l *Library) Close() error {
	l.mu.Lock()
	l.closed = true
	l.signal()
	l.mu.Unlock()
	l.loads.Wait()
	for _, t := range slices.Clone(l.memory) {
		t.unloadIdle()
	}
	return nil
}

// signal wakes what waits for a change. The lock is held.
func (l *Library) signal() {
	close(l.changed)
	l.changed = make(chan struct{})
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

// noticeEvery is how often a request that waits for a model is told so.
const noticeEvery = time.Second

// errLeft says that the request went away while it waited.
var errLeft = errors.New("the request left")

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

// enqueue notes that a request waits for the model.
func (l *Library) enqueue(t *Title) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waiters++; t.waiters == 1 {
		l.waiting = append(l.waiting, t)
	}
}

// dequeue notes that a request has the model, or has left.
func (l *Library) dequeue(t *Title) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.waiters--; t.waiters == 0 {
		l.waiting = slices.DeleteFunc(l.waiting, func(other *Title) bool { return other == t })
		l.signal()
	}
}

// room is what all loaded models may take now: the budget, or less if other programs have
// taken memory since. The lock is held.
func (l *Library) room() (int64, error) {
	if l.cfg.Free == nil {
		return l.cfg.Budget, nil
	}
	free, err := l.cfg.Free()
	if err != nil {
		return 0, err
	}
	for _, r := range l.loaded() {
		free += r.bytes // which counts pools that are not touched yet twice, so the budget binds
	}
	return min(l.cfg.Budget, free), nil
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

// forget notes that the model has left memory.
func (l *Library) forget(t *Title) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.closing = false
	l.memory = slices.DeleteFunc(l.memory, func(other *Title) bool { return other == t })
	l.signal()
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
	cfg := t.config
	cfg.Registry = metrics
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

// An unregisterer registers metrics and takes them back, so that a model can be loaded
// again.
type unregisterer struct {
	to  prometheus.Registerer
	all []prometheus.Collector
}

// Register enters a collector.
func (u *unregisterer) Register(c prometheus.Collector) error {
	if u.to == nil {
		return nil
	}
	err := u.to.Register(c)
	if err == nil {
		u.all = append(u.all, c)
	}
	return err
}

// MustRegister enters collectors, and panics if it cannot.
func (u *unregisterer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := u.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister takes a collector back.
func (u *unregisterer) Unregister(c prometheus.Collector) bool {
	return u.to != nil && u.to.Unregister(c)
}

func (u *unregisterer) unregister() {
	for _, c := range u.all {
		u.Unregister(c)
	}
}

// Budget returns the memory that all models may take together.
func (l *Library) Budget() int64 { return l.cfg.Budget }
