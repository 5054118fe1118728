package discover

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Desk is where workers register themselves, with a token. A registration is
// good for a while and must be repeated: a worker that is gone is forgotten.
//
//	POST   {"name": …, "url": …, "kind": …, "pool": …}   registers, or goes on
//	DELETE {"name": …}                                   leaves
type Desk struct {
	pools []string
	token [sha256.Size]byte
	ttl   time.Duration
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	entries map[string]entry
	changed chan struct{} // closed and replaced
}

type entry struct {
	Place
	pool  string
	until time.Time
}

const (
	deskBytesMax   = 64 << 10
	deskEntriesMax = 4096
	// RegisterFor is how long a registration is good if the desk is not told
	// otherwise; workers repeat theirs three times as often.
	RegisterFor = 15 * time.Second
)

// tokenMin is the length from which on a token cannot be guessed.
const tokenMin = 16

// NewDesk makes a desk for workers of these pools that show the token; a
// registration is good for ttl, 0 means [RegisterFor].
func NewDesk(token string, pools []string, ttl time.Duration, log *slog.Logger) (*Desk, error) {
	if len(token) < tokenMin {
		return nil, fmt.Errorf("the token with which workers register has %d characters: use at least %d, such as from `openssl rand -hex 16`", len(token), tokenMin)
	}
	return &Desk{pools: pools, token: sha256.Sum256([]byte(token)), ttl: cmp.Or(ttl, RegisterFor), now: time.Now, log: orDefault(log), entries: map[string]entry{}, changed: make(chan struct{})}, nil
}

// A Registration is what a worker sends.
type Registration struct {
	Place
	Pool string `json:"pool"`
}

// ServeHTTP registers workers.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	shown := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	if subtle.ConstantTimeCompare(shown[:], d.token[:]) != 1 {
		d.log.Warn("a worker showed a wrong token", "from", r.RemoteAddr)
		answer(w, http.StatusUnauthorized, "The token is wrong: give the worker the one that the gateway has.")
		return
	}
	var asked Registration
	if err := json.NewDecoder(io.LimitReader(r.Body, deskBytesMax)).Decode(&asked); err != nil {
		answer(w, http.StatusBadRequest, "The body is not JSON: "+err.Error())
		return
	}
	var err error
	switch r.Method {
	case http.MethodPost:
		err = d.register(&asked)
	case http.MethodDelete:
		d.leave(asked.Name)
	default:
		answer(w, http.StatusMethodNotAllowed, "Use POST or DELETE.")
		return
	}
	if err != nil {
		answer(w, http.StatusBadRequest, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "fleet.registration", "expires_in": d.ttl.Seconds()}) // it asks again
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": message}}) // it asks again
}

func (d *Desk) register(r *Registration) error {
	if err := r.complete(); err != nil {
		return err
	}
	if r.Pool = cmp.Or(r.Pool, d.pools[0]); !slices.Contains(d.pools, r.Pool) {
		return fmt.Errorf("there is no pool %q where workers may register: there are %s", r.Pool, strings.Join(d.pools, ", "))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.entries[r.Name]
	if !ok && len(d.entries) >= deskEntriesMax {
		return errors.New("there are too many workers")
	}
	d.entries[r.Name] = entry{r.Place, r.Pool, d.now().Add(d.ttl)}
	if !ok || !known.equal(r.Place) || known.pool != r.Pool {
		d.wake()
	}
	return nil
}

func (d *Desk) leave(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.entries[name]; ok {
		delete(d.entries, name)
		d.wake()
	}
}

func (d *Desk) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Source tells who is registered in a pool.
func (d *Desk) Source(pool string) Source {
	return func(ctx context.Context, tell func([]Place)) {
		var last []Place
		for first := true; ; first = false {
			places, changed, next := d.present(pool)
			if first || !slices.EqualFunc(places, last, Place.equal) {
				last = places
				tell(slices.Clone(places))
			}
			timer := time.NewTimer(next)
			select {
			case <-ctx.Done():
			case <-changed:
			case <-timer.C:
			}
			timer.Stop()
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// present returns who is registered, and when to look again.
func (d *Desk) present(pool string) (places []Place, changed <-chan struct{}, next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	next = d.ttl
	maps.DeleteFunc(d.entries, func(_ string, e entry) bool { return !e.until.After(now) })
	for _, e := range d.entries {
		next = min(next, e.until.Sub(now))
		if e.pool == pool {
			places = append(places, e.Place)
		}
	}
	slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Name, b.Name) })
	return places, d.changed, next
}
