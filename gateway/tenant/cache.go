package tenant

import (
	"crypto/subtle"
	"time"

	"parley"
)

const (
	// knownMax and unknownMax bound the two halves of the cache.
	knownMax   = 65536
	unknownMax = 16384
	// knownAge is for how long a key is believed without asking the store. The
	// store is asked for changes all the time, so this counts only while it cannot
	// be reached: then keys work for this time, and no longer.
	knownAge = 30 * time.Second
	// unknownAge is for how long a key that does not exist is refused unasked.
	unknownAge = 10 * time.Second
)

// Why a key is refused.
var (
	errUnknown = parley.Errorf(parley.Unauthenticated,
		"Incorrect API key provided. Check it, or create a new one with: parley keys create")
	errBlocked = parley.Errorf(parley.Unauthenticated, "This API key is blocked. Ask the operator of this server.")
	errDeleted = parley.Errorf(parley.Unauthenticated,
		"The API key of this request was deleted. Use another key.")
	errExpired = parley.Errorf(parley.Unauthenticated,
		"This API key has expired. Create a new one with: parley keys create")
)

// A Scope is the page that a session was opened for. A session is good in its own
// scope alone.
type Scope string

const (
	// ScopeChat sessions never have the admin right.
	ScopeChat Scope = "chat"
	// ScopeAdmin sessions have the rights of the key that opened them.
	ScopeAdmin Scope = "admin"
)

// SessionMax is how long a session of a scope holds.
func (s Scope) SessionMax() time.Duration {
	if s == ScopeAdmin {
		return 12 * time.Hour
	}
	return 30 * 24 * time.Hour
}

// A cache remembers what became of keys, for one generation of the store. It
// has no clock and no lock.
type cache struct {
	generation int64
	known      map[digest]keyLookup
	unknown    map[digest]time.Time
}

// A keyLookup is what becomes of calls with a key.
type keyLookup struct {
	digest   digest
	identity *Identity
	// refused says why the key is not accepted, nil if it is.
	refused error
	expires time.Time
	at      time.Time
	// scope is that of a session, empty for a key. local sessions are those of a
	// server without keys.
	scope Scope
	local bool
	// generation is that of the store in which it was reached.
	generation int64
}

func newCache() *cache {
	c := &cache{}
	c.forget(0)
	return c
}

// forget begins a generation: all that was remembered is forgotten.
func (c *cache) forget(generation int64) {
	c.generation, c.known, c.unknown = generation, map[digest]keyLookup{}, map[digest]time.Time{}
}

// get returns what is remembered of a key.
func (c *cache) get(d digest, now time.Time) (v keyLookup, ok bool) {
	if since, ok := c.unknown[d]; ok && now.Sub(since) < unknownAge {
		return keyLookup{digest: d, refused: errUnknown}, true
	}
	v, ok = c.known[d]
	return v, ok && now.Sub(v.at) < knownAge && subtle.ConstantTimeCompare(v.digest[:], d[:]) == 1
}

// put remembers a verdict that was read in a generation. One of an older
// generation than the cache has may be outdated, and is not kept.
func (c *cache) put(d digest, v keyLookup, generation int64, now time.Time) {
	switch {
	case generation < c.generation:
		return
	case generation > c.generation:
		c.forget(generation)
	}
	if v.refused == errUnknown {
		if len(c.unknown) >= unknownMax {
			c.unknown = map[digest]time.Time{}
		}
		c.unknown[d] = now
		return
	}
	if len(c.known) >= knownMax {
		c.known = map[digest]keyLookup{}
	}
	v.at = now
	c.known[d] = v
}
