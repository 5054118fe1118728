package host

import (
	"context"
	"errors"
	"fmt"
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
	cfg, need, refusal := l.size(Candidate{ck, cfg})
	front, err := OpenFront(Candidate{ck, cfg}) // which closes ck
	if err != nil {
		return nil, err
	}
	t := &Title{
		Front:   front,
		library: l,
		open:    open,
		config:  cfg,
		need:    need,
		refusal: refusal,
		used:    l.cfg.Now(),
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
	cfg = cfg.sized(max(min(wanted, fits), 1))
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
		t.remove()
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

// noticeEvery is how often a request that waits for a model is told so.
const noticeEvery = time.Second

// errLeft says that the request went away while it waited.
var errLeft = errors.New("the request left")

// enqueue notes that a request waits for the model.
func (l *Library) enqueue(t *Title) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.wait(1) == 1 {
		l.waiting = append(l.waiting, t)
	}
}

// dequeue notes that a request has the model, or has left.
func (l *Library) dequeue(t *Title) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.wait(-1) == 0 {
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

// forget notes that the model has left memory.
func (l *Library) forget(t *Title) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.closed()
	l.memory = slices.DeleteFunc(l.memory, func(other *Title) bool { return other == t })
	l.signal()
}

// Budget returns the memory that all models may take together.
func (l *Library) Budget() int64 { return l.cfg.Budget }
