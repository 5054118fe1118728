package exchange

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"parley"
)

// A BodyGate bounds how many bytes of request bodies are in memory: in all, and of
// each key. Bytes are taken before a body is read and released when only its
// tokens are needed. Of those that wait, the first whose key has room comes next;
// one for which the total has no room holds up all behind it, so that large bodies
// have their turn, too.
type BodyGate struct {
	total, perKey int64

	mu      sync.Mutex
	used    int64
	of      map[string]int64
	waiting []*gateWaiter
}

// A gateWaiter waits for bytes; called is closed when it has them.
type gateWaiter struct {
	key    string
	bytes  int64
	called chan struct{}
}

// gateWait is how long a request waits for its bytes before it is refused.
const gateWait = 5 * time.Second

// BodyBytes are the bytes of one body. It is safe to release them again, and on nil.
type BodyBytes struct {
	gate  *BodyGate
	key   string
	mu    sync.Mutex
	bytes int64
}

// NewBodyGate returns a gate for total bytes, of which each key may have perKey.
func NewBodyGate(total, perKey int64) *BodyGate {
	return &BodyGate{total: total, perKey: perKey, of: map[string]int64{}}
}

// Take waits until a body of the given bytes may be read, or refuses it.
func (g *BodyGate) Take(ctx context.Context, key string, bytes int64) (*BodyBytes, error) {
	bytes = min(bytes, g.perKey, g.total)
	held := &BodyBytes{gate: g, key: key, bytes: bytes}
	w := g.queue(key, bytes)
	if w == nil {
		return held, nil
	}
	timer := time.NewTimer(gateWait)
	defer timer.Stop()
	select {
	case <-w.called:
		return held, nil
	case <-ctx.Done():
		return nil, g.leave(w, context.Cause(ctx))
	case <-timer.C:
		return nil, g.leave(w, g.refusal(key))
	}
}

// queue takes bytes if nothing is in the way, and else returns what waits for them.
func (g *BodyGate) queue(key string, bytes int64) *gateWaiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 && g.of[key]+bytes <= g.perKey && g.used+bytes <= g.total {
		g.used += bytes
		g.of[key] += bytes
		return nil
	}
	w := &gateWaiter{key: key, bytes: bytes, called: make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.call() // it may not have to wait for those before it
	return w
}

// leave ends waiting, and returns why.
func (g *BodyGate) leave(w *gateWaiter, why error) error {
	g.mu.Lock()
	i := slices.Index(g.waiting, w)
	if i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.call() // it may have held up others
	}
	g.mu.Unlock()
	if i < 0 { // it was called just now
		g.give(w.key, w.bytes)
	}
	return why
}

// refusal is the error of a request that has waited in vain.
func (g *BodyGate) refusal(key string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.of[key] > 0 {
		return &parley.Error{Code: parley.RateLimited, Wait: time.Second,
			Message: "The requests of your key that are being read have too many bytes together: " +
				"of " + byteCount(g.perKey) + " that a key may have, " + byteCount(
				g.of[key]) + " are taken. Send large requests one after the other."}
	}
	return &parley.Error{Code: parley.Overloaded, Wait: time.Second,
		Message: "The server is reading too many bytes of requests at the moment: " +
			byteCount(g.used) + " of " + byteCount(g.total) + ". Try again in a while."}
}

// call gives bytes to requests that wait. The lock is held.
func (g *BodyGate) call() {
	var full map[string]bool // keys of which one waits already; "" stands for the total
	g.waiting = slices.DeleteFunc(g.waiting, func(w *gateWaiter) bool {
		switch {
		case full[""]:
			return false
		case full[w.key] || g.of[w.key]+w.bytes > g.perKey:
			full = with(full, w.key)
			return false
		case g.used+w.bytes > g.total:
			full = with(full, "")
			return false
		}
		g.used += w.bytes
		g.of[w.key] += w.bytes
		close(w.called)
		return true
	})
}

func with(set map[string]bool, key string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	set[key] = true
	return set
}

// Used returns how many bytes are taken.
func (g *BodyGate) Used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

// give returns bytes to the gate.
func (g *BodyGate) give(key string, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= bytes
	if g.of[key] -= bytes; g.of[key] <= 0 {
		delete(g.of, key)
	}
	g.call()
}

// Shrink releases what a body turned out not to need.
func (h *BodyBytes) Shrink(to int64) {
	if h == nil {
		return
	}
	h.mu.Lock()
	back := h.bytes - to
	if back > 0 {
		h.bytes = to
	}
	h.mu.Unlock()
	if back > 0 {
		h.gate.give(h.key, back)
	}
}

// Release gives the bytes back.
func (h *BodyBytes) Release() { h.Shrink(0) }

// byteCount is a number of bytes for people to read.
func byteCount(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return strconv.FormatInt(n>>30, 10) + " GiB"
	case n >= 1<<20:
		return strconv.FormatFloat(float64(n*10>>20)/10, 'g', -1, 64) + " MiB"
	case n >= 1<<10:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
