package discover

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"parley"
)

// A Registrar is where workers register themselves. A worker joins with the join token, which
// all workers share, and is given a credential of its own, which is good for its name and
// URL alone. It shows the credential when it repeats its registration and when it leaves,
// and the gateway shows it when it calls the worker. So a worker's host can add workers,
// and can neither replace nor remove those of others, nor learn what opens them.
//
//	POST   {"name": …, "url": …, "kind": …, "pool": …}   joins, or stays
//	DELETE {"name": …}                                   leaves
//
// A registration is good for a while and must be repeated: a worker that is gone is
// forgotten. It counts from its first repetition on, which shows that the worker has its
// credential.
type Registrar struct {
	admissions []Admission
	token      [sha256.Size]byte
	ttl        time.Duration
	now        func() time.Time
	log        *slog.Logger

	mu      sync.Mutex
	entries map[string]*entry            // by name
	shown   map[[sha256.Size]byte]string // names by the digests of their credentials
	changed chan struct{}                // closed and replaced
}

// An Admission says which workers may join a pool.
type Admission struct {
	Pool string
	// Networks are where a worker must be, and must register from; empty means
	// [PrivateNetworks]. A URL with a name is checked when it is connected to.
	Networks []netip.Prefix
	// Kinds are what it may be; empty means Parley workers.
	Kinds []string
}

type entry struct {
	Address
	pool      string
	peer      netip.Addr
	digest    [sha256.Size]byte // of its credential
	until     time.Time
	confirmed bool
}

const (
	deskBytesMax   = 64 << 10
	deskEntriesMax = 4096
	deskNameMax    = 256
	// RegisterFor is how long a registration is good if the registrar is not told
	// otherwise; workers repeat theirs three times as often.
	RegisterFor = 15 * time.Second
	// kindDefault is what a worker is that does not say, and all that may join unless
	// the registrar is told otherwise.
	kindDefault = "parley"
)

// TokenMin is how many characters a token must have at least, so that it cannot be
// guessed.
const TokenMin = 16

// PrivateNetworks are the loopback addresses and those that the Internet does not route,
// without the link-local ones, at which clouds answer with secrets of the machine.
func PrivateNetworks() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fc00::/7"),
	}
}

// NewRegistrar makes a registrar for workers that show the join token; a registration is good for
// ttl, 0 means [RegisterFor].
func NewRegistrar(token string, admissions []Admission, ttl time.Duration, log *slog.Logger) (*Registrar, error) {
	if len(token) < TokenMin {
		return nil,
			fmt.Errorf("the join token has %d characters: use at least %d, such as from `openssl rand -hex 16`",
				len(token), TokenMin)
	}
	admissions = slices.Clone(admissions)
	for i := range admissions {
		if a := &admissions[i]; len(a.Networks) == 0 {
			a.Networks = PrivateNetworks()
		}
		if a := &admissions[i]; len(a.Kinds) == 0 {
			a.Kinds = []string{kindDefault}
		}
	}
	return &Registrar{
		admissions: admissions,
		token:      sha256.Sum256([]byte(token)),
		ttl:        cmp.Or(ttl, RegisterFor),
		now:        time.Now,
		log:        orDefault(log),
		entries:    map[string]*entry{},
		shown:      map[[sha256.Size]byte]string{},
		changed:    make(chan struct{}),
	}, nil
}

// A Registration is what a worker sends.
type Registration struct {
	Address
	Pool string `json:"pool"`
}

// A caller is who sent a registration: a worker with the join token, or the one with the
// name that its credential belongs to.
type caller struct {
	joins bool
	name  string
	peer  netip.Addr
}

// ServeHTTP registers workers.
func (d *Registrar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, known := d.identify(r)
	if !known {
		d.log.Warn("worker registration rejected: wrong token", "peer", r.RemoteAddr)
		answer(w, http.StatusUnauthorized, "Wrong token: start the worker with the gateway's --fleet-join-token.")
		return
	}
	var asked Registration
	if err := json.NewDecoder(io.LimitReader(r.Body, deskBytesMax)).Decode(&asked); err != nil {
		answer(w, http.StatusBadRequest, "The body is not JSON: "+err.Error())
		return
	}
	var credential string
	var err error
	switch {
	case r.Method == http.MethodPost && from.joins:
		credential, err = d.join(&asked, from.peer)
	case r.Method == http.MethodPost:
		err = d.stay(&asked, from)
	case r.Method == http.MethodDelete:
		err = d.leave(asked.Name, from)
	default:
		answer(w, http.StatusMethodNotAllowed, "Use POST or DELETE.")
		return
	}
	if err != nil {
		d.log.Warn("worker registration rejected", "worker", shortened(asked.Name), "url", shortened(asked.URL),
			"peer", r.RemoteAddr, "error", err)
		answer(w, registrarStatus[parley.CodeOf(err)], err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(registration{ // if it does not arrive, the worker asks again
		Object: "fleet.registration", ExpiresIn: d.ttl.Seconds(), Credential: credential,
	})
}

// registration is what a worker is answered.
type registration struct {
	Object    string  `json:"object"`
	ExpiresIn float64 `json:"expires_in"`
	// Credential is there when the worker has joined.
	Credential string `json:"credential,omitempty"`
}

var registrarStatus = map[parley.Code]int{
	parley.InvalidRequest: http.StatusBadRequest, parley.Forbidden: http.StatusForbidden,
	parley.Conflict: http.StatusConflict, parley.Overloaded: http.StatusTooManyRequests,
}

// identify returns who sent a request, by its bearer token.
func (d *Registrar) identify(r *http.Request) (caller, bool) {
	digest := sha256.Sum256([]byte(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	from := caller{peer: peer.Addr().Unmap()}
	if err != nil {
		return from, false
	}
	if subtle.ConstantTimeCompare(digest[:], d.token[:]) == 1 {
		from.joins = true
		return from, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	from.name = d.shown[digest] // a digest reveals nothing about similar credentials
	return from, from.name != ""
}

func answer(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": message}}) // it asks again
}

// shortened bounds what a stranger has written into the log.
func shortened(text string) string { return text[:min(len(text), deskNameMax)] }

// join registers a worker and returns its credential.
func (d *Registrar) join(r *Registration, peer netip.Addr) (credential string, err error) {
	if err := d.admit(r, peer); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	known := d.entries[r.Name]
	switch {
	case known == nil && len(d.entries) >= deskEntriesMax:
		return "", parley.Errorf(parley.Overloaded, "the limit of %d registered workers is reached", deskEntriesMax)
	case known != nil && known.confirmed && known.URL != r.URL:
		return "", parley.Errorf(parley.Conflict,
			"a worker at %s already has the name %q: choose another name, or stop that worker and wait %v", known.URL,
			r.Name, d.ttl)
	case known != nil && known.confirmed && known.peer != peer:
		return "", parley.Errorf(parley.Conflict,
			"worker %q was registered from another address: stop that worker and wait %v", r.Name, d.ttl)
	}
	if known != nil {
		d.drop(known)
	}
	credential = rand.Text()
	e := &entry{
		Address: r.Address,
		pool:    r.Pool,
		peer:    peer,
		digest:  sha256.Sum256([]byte(credential)),
		until:   d.now().Add(d.ttl),
	}
	e.Credential = credential
	d.entries[e.Name], d.shown[e.digest] = e, e.Name
	return credential, nil
}

// admit fills in what a registration leaves out, and says why a worker may not join.
func (d *Registrar) admit(r *Registration, peer netip.Addr) error {
	if err := r.complete(); err != nil {
		return parley.Errorf(parley.InvalidRequest, "%v", err)
	}
	if len(r.Name) > deskNameMax {
		return parley.Errorf(parley.InvalidRequest, "the name has %d bytes: use at most %d", len(r.Name), deskNameMax)
	}
	r.Pool, r.Kind = cmp.Or(r.Pool, d.admissions[0].Pool), cmp.Or(r.Kind, kindDefault)
	at := slices.IndexFunc(d.admissions, func(a Admission) bool { return a.Pool == r.Pool })
	if at < 0 {
		return parley.Errorf(parley.InvalidRequest, "no pool %q accepts registrations; available: %s", r.Pool,
			d.poolNames())
	}
	// Labels could name sockets for events, anywhere.
	r.Labels = nil
	return d.admissions[at].check(&r.Address, peer)
}

// check says why a worker may not join from an address.
func (a *Admission) check(p *Address, peer netip.Addr) error {
	if !slices.Contains(a.Kinds, p.Kind) {
		return parley.Errorf(parley.Forbidden,
			"workers of kind %q may not register in pool %s, only %s: allow them with --fleet-join-kinds", p.Kind,
			a.Pool, strings.Join(a.Kinds, ", "))
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return parley.Errorf(parley.InvalidRequest, "invalid URL: %v", err)
	}
	at := []netip.Addr{peer}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		at = append(at, ip.Unmap())
	}
	for _, ip := range at {
		if !contains(a.Networks, ip) {
			return parley.Errorf(parley.Forbidden,
				"%v is not in the networks that may register in pool %s: allow it with --fleet-join-networks", ip,
				a.Pool)
		}
	}
	return nil
}

func contains(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

func (d *Registrar) poolNames() string {
	var names []string
	for _, a := range d.admissions {
		names = append(names, a.Pool)
	}
	return strings.Join(names, ", ")
}

// stay repeats the registration of the worker whose credential was shown.
func (d *Registrar) stay(r *Registration, from caller) error {
	if err := d.admit(r, from.peer); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[from.name]
	if e == nil || e.Name != r.Name || e.URL != r.URL || e.Kind != r.Kind || e.pool != r.Pool {
		return parley.Errorf(parley.Forbidden, "the credential belongs to another worker")
	}
	e.until = d.now().Add(d.ttl)
	if !e.confirmed {
		e.confirmed = true
		d.log.Info("worker registered", "worker", e.Name, "url", e.URL, "kind", e.Kind, "pool", e.pool, "peer",
			from.peer)
		d.wake()
	}
	return nil
}

// leave takes a worker out whose credential was shown.
func (d *Registrar) leave(name string, from caller) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[from.name]
	if e == nil || name != e.Name {
		return parley.Errorf(parley.Forbidden, "a worker must leave with its own credential")
	}
	d.log.Info("worker left", "worker", e.Name, "url", e.URL, "peer", from.peer)
	d.drop(e)
	return nil
}

// drop forgets an entry. The lock is held.
func (d *Registrar) drop(e *entry) {
	delete(d.entries, e.Name)
	delete(d.shown, e.digest)
	if e.confirmed {
		d.wake()
	}
}

// forget drops the entries that were not repeated. The lock is held.
func (d *Registrar) forget() {
	now := d.now()
	for _, e := range d.entries {
		if !e.until.After(now) {
			d.drop(e)
		}
	}
}

func (d *Registrar) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Source reports the workers that are registered in a pool.
func (d *Registrar) Source(pool string) Source {
	return func(ctx context.Context, tell func([]Address)) {
		var last []Address
		for first := true; ; first = false {
			places, changed, next := d.present(pool)
			if first || !slices.EqualFunc(places, last, Address.equal) {
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
func (d *Registrar) present(pool string) (places []Address, changed <-chan struct{}, next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget()
	now := d.now()
	next = d.ttl
	for _, e := range slices.SortedFunc(maps.Values(d.entries), func(a, b *entry) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		next = min(next, e.until.Sub(now))
		if e.pool == pool && e.confirmed {
			places = append(places, e.Address)
		}
	}
	return places, d.changed, next
}
