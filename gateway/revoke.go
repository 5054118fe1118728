package gateway

import (
	"context"
	"errors"
	"sync"

	"parley"
	"parley/gateway/exchange"
)

// Revocations end running answers when the key that asked for them is deleted or
// blocked, by itself or with its user or organisation. The keyring says when keys
// have changed: at once on the gateway that changed them, and within a second on
// others.
type revocations struct {
	mu sync.Mutex
	// round counts the checks, so that work which was identified before one and
	// registered after it is checked by itself.
	round   uint64
	running map[string]map[*revocable]struct{} // by key id
}

// A revocable is work that can be ended. The zero value is not registered.
type revocable struct {
	key    string
	cancel context.CancelCauseFunc
}

// begin returns the number of the present round. It is called before a caller is
// identified.
func (r *revocations) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.round
}

// add registers work of a key until remove.
func (r *revocations) add(w *revocable) (round uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = map[string]map[*revocable]struct{}{}
	}
	if r.running[w.key] == nil {
		r.running[w.key] = map[*revocable]struct{}{}
	}
	r.running[w.key][w] = struct{}{}
	return r.round
}

func (r *revocations) remove(w *revocable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running[w.key], w)
	if len(r.running[w.key]) == 0 {
		delete(r.running, w.key)
	}
}

// keys lists the keys that have running work, and begins another round.
func (r *revocations) keys() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round++
	for key := range r.running {
		list = append(list, key)
	}
	return list
}

// end cancels all running work of a key.
func (r *revocations) end(key string, why error) {
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

// checkRunning ends the running work of keys that are refused by now. A store
// that cannot be reached ends nothing.
func (g *Gateway) checkRunning(ctx context.Context) {
	for _, key := range g.revocations.keys() {
		g.checkKey(ctx, key)
	}
}

func (g *Gateway) checkKey(ctx context.Context, key string) {
	_, err := g.config.Keys.OfKey(ctx, key)
	if code := parley.CodeOf(err); code == parley.Unauthenticated || code == parley.Forbidden {
		g.revocations.end(key, errors.Join(err, exchange.ErrRevoked))
	}
}

// revocable lets cancel end the call's work if its key is revoked. A later
// cancel takes the place of an earlier one, until the call has finished.
func (c *call) revocable(cancel context.CancelCauseFunc) {
	g := c.gateway
	if g.config.Keys == nil || c.Identity.Key == "" {
		return
	}
	c.unrevocable()
	c.revoke = &revocable{key: c.Identity.Key, cancel: cancel}
	if g.revocations.add(c.revoke) != c.round {
		g.checkKey(c.Request.Context(), c.Identity.Key)
	}
}

func (c *call) unrevocable() {
	if c.revoke != nil {
		c.gateway.revocations.remove(c.revoke)
		c.revoke = nil
	}
}
