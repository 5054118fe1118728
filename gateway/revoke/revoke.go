// Package revoke ends running work when the key that asked for it is deleted or
// blocked, by itself or with its user or organisation. The keyring says when keys have
// changed: at once on the gateway that changed them, and within a second on others.
package revoke

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"parley"
	"parley/gateway/tenant"
)

// ErrRevoked is in the chain of the cause with which revoked work ends.
var ErrRevoked = errors.New("the key was revoked while the answer was being written")

// A Registry knows the running work of each key. It is safe for concurrent use.
type Registry struct {
	keys *tenant.Keyring

	mu sync.Mutex
	// round counts the checks, so that work which was identified before one and
	// registered after it is checked by itself.
	round   uint64
	running map[string]map[*Work]struct{} // by key id
}

// A Work is something that can be ended. The zero value never is.
type Work struct {
	registry *Registry
	round    uint64
	key      string
	cancel   context.CancelCauseFunc
}

// New returns a registry for a keyring; with nil no work is ever revoked.
func New(keys *tenant.Keyring) *Registry {
	r := &Registry{keys: keys, running: map[string]map[*Work]struct{}{}}
	if keys != nil {
		keys.OnChange(r.check)
	}
	return r
}

// Begin returns work that is not registered yet. It is called before a caller is
// identified.
func (r *Registry) Begin() Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Work{registry: r, round: r.round}
}

// Next returns work of the same caller that is registered apart from w.
func (w *Work) Next() Work { return Work{registry: w.registry, round: w.round} }

// Register lets cancel end the work if key is revoked, until Done. A later cancel takes
// the place of an earlier one. Work without a key cannot be revoked.
func (w *Work) Register(ctx context.Context, key string, cancel context.CancelCauseFunc) {
	r := w.registry
	if r == nil || r.keys == nil || key == "" {
		return
	}
	w.Done()
	w.key, w.cancel = key, cancel
	if r.add(w) != w.round {
		r.checkKey(ctx, key)
	}
}

// Done ends what Register began. It is safe to call it again.
func (w *Work) Done() {
	if w.cancel != nil {
		w.registry.remove(w)
		w.cancel = nil
	}
}

// add registers work of a key until remove, and returns the present round.
func (r *Registry) add(w *Work) (round uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[w.key] == nil {
		r.running[w.key] = map[*Work]struct{}{}
	}
	r.running[w.key][w] = struct{}{}
	return r.round
}

func (r *Registry) remove(w *Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running[w.key], w)
	if len(r.running[w.key]) == 0 {
		delete(r.running, w.key)
	}
}

// nextRound lists the keys that have running work, and begins another round.
func (r *Registry) nextRound() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round++
	for key := range r.running {
		list = append(list, key)
	}
	return list
}

// end cancels all running work of a key.
func (r *Registry) end(key string, why error) {
	r.mu.Lock()
	var all []context.CancelCauseFunc
	for w := range r.running[key] {
		all = append(all, w.cancel)
	}
	r.mu.Unlock()
	for _, cancel := range all {
		cancel(why)
	}
}

// Running lists the keys that have running work.
func (r *Registry) Running() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.running))
}

// check ends the running work of keys that are refused by now. A store that cannot be
// reached ends nothing.
func (r *Registry) check(ctx context.Context) {
	for _, key := range r.nextRound() {
		r.checkKey(ctx, key)
	}
}

func (r *Registry) checkKey(ctx context.Context, key string) {
	_, err := r.keys.OfKey(ctx, key)
	if code := parley.CodeOf(err); code == parley.Unauthenticated || code == parley.Forbidden {
		r.end(key, errors.Join(err, ErrRevoked))
	}
}
