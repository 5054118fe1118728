package tenant

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"sync"
	"time"

	"parley/gateway/accounts"
	"parley/gateway/db"
	"parley/limit"
)

const (
	// pollEvery is how often the store is asked for changes. A key that is blocked
	// anywhere is refused everywhere within a second: this, and one query.
	pollEvery = 250 * time.Millisecond
	// usedEvery is how often it is noted when keys were used.
	usedEvery = 5 * time.Second
	// askMax bounds one question to the store.
	askMax = 5 * time.Second
)

// A Keyring identifies callers. It caches the keys of a store and follows its changes
// until it is closed.
type Keyring struct {
	store *Store
	tiers Tiers
	log   *slog.Logger
	now   func() time.Time

	mu    sync.Mutex
	cache *cache
	// guarded is set once the store had a key or an account, and stays. peopled is set
	// while it has accounts.
	guarded, peopled bool
	used             map[string]time.Time
	// seen is when sessions of accounts were used.
	seen map[accounts.Digest]time.Time
	// changed is called after the store's keys have changed; nil calls nothing.
	changed func(context.Context)
	// asked are keys that the store is asked for now.
	asked db.Searches[keyLookup]

	stop context.CancelFunc
	done sync.WaitGroup
}

// NewKeyring makes a keyring of a store. The caller closes the store,
// after the keyring.
func NewKeyring(ctx context.Context, store *Store, tiers Tiers, log *slog.Logger) (*Keyring, error) {
	k := &Keyring{
		store: store,
		tiers: tiers,
		log:   log,
		now:   time.Now,
		cache: newCache(),
		used:  map[string]time.Time{},
		seen:  map[accounts.Digest]time.Time{},
	}
	if err := k.Refresh(ctx); err != nil {
		return nil, err
	}
	ctx, k.stop = context.WithCancel(context.Background())
	k.done.Go(func() { k.follow(ctx) })
	return k, nil
}

// Close ends following the store.
func (k *Keyring) Close() {
	k.stop()
	k.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	k.noteUsed(ctx)
}

// LimitsOf returns what a tenant may use: its own limits, and its tier's
// where it has none.
func (k *Keyring) LimitsOf(o *Organization) limit.Limits { return o.Limits.Or(k.tiers[o.Tier].Limits) }

// Store returns the store that the keyring follows.
func (k *Keyring) Store() *Store { return k.store }

// Empty reports whether the store never had a key or an account while the keyring was
// open. Deleting the last one must not give anonymous clients access, so the answer
// stays false.
func (k *Keyring) Empty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.guarded
}

// HasAccounts reports whether people have accounts.
func (k *Keyring) HasAccounts() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.peopled
}

// Refresh takes up the store's changes now.
func (k *Keyring) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	state, err := k.store.State(ctx)
	if err != nil {
		return err
	}
	if changed := k.takeUp(state); changed != nil {
		changed(ctx)
	}
	return nil
}

// takeUp forgets what the state has made old, and returns what is to be called then.
func (k *Keyring) takeUp(state State) (changed func(context.Context)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.peopled = state.Accounts > 0
	k.guarded = k.guarded || state.Keys > 0 || k.peopled
	if state.Generation > k.cache.generation {
		k.cache.forget(state.Generation)
		changed = k.changed
	}
	return changed
}

// OnChange has f called whenever keys, users or tenants have changed,
// before [Keyring.Refresh] returns. It must be set before calls are answered.
func (k *Keyring) OnChange(f func(context.Context)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changed = f
}

// Identify returns the identity of a key, or why it is rejected.
func (k *Keyring) Identify(ctx context.Context, secret string) (*Identity, error) {
	now, d := k.now(), digestOf(secret)
	v, ok := k.recall(d, now)
	if !ok { // all who show it now wait for one answer
		prefix, ok := prefixOf(secret)
		if !ok {
			return nil, errUnknown
		}
		var err error
		ask := func(ctx context.Context) (keyLookup, error) { return k.ask(ctx, prefix, d, now) }
		if v, err = k.asked.Find(ctx, string(d[:]), ask); err == nil && !k.isCurrent(&v) {
			v, err = k.asked.Find(ctx, string(d[:]), ask) // this one was begun after now
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case v.refused != nil:
		return nil, v.refused
	case !v.expires.IsZero() && !now.Before(v.expires):
		return nil, errExpired
	}
	return v.identity, nil
}

// recall returns what is remembered of a key, and notes its use.
func (k *Keyring) recall(d digest, now time.Time) (keyLookup, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.cache.get(d, now)
	if ok {
		k.noteUse(&v, now)
	}
	return v, ok
}

// noteUse remembers that a key, or the session of an account, was used. The caller
// holds mu.
func (k *Keyring) noteUse(v *keyLookup, now time.Time) {
	switch {
	case v.refused != nil || v.identity.Key == "":
	case v.identity.SignedIn():
		k.seen[accounts.Digest(v.digest)] = now
	default:
		k.used[v.identity.Key] = now
	}
}

// isCurrent reports whether a verdict is of the generation that is known. One that was
// asked for before a key was blocked may come after that was taken up.
func (k *Keyring) isCurrent(v *keyLookup) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return v.generation >= k.cache.generation
}

// ask has the store decide about a key, and remembers that.
func (k *Keyring) ask(ctx context.Context, prefix string, d digest, now time.Time) (keyLookup, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	r, generation, err := k.store.find(ctx, prefix)
	missing := errors.Is(err, ErrNotFound)
	if err != nil && !missing {
		return keyLookup{}, err
	}
	v := keyLookup{digest: d, expires: r.key.Expires, generation: generation}
	switch {
	case missing || subtle.ConstantTimeCompare(r.digest[:], d[:]) != 1:
		v.refused = errUnknown
	case r.blocked():
		v.refused = errBlocked
	default:
		v.identity = new(k.tiers.ofRecord(&r))
	}
	k.keep(&v, now)
	return v, nil
}

// keep remembers what the store has decided.
func (k *Keyring) keep(v *keyLookup, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cache.put(v.digest, *v, v.generation, now)
	k.noteUse(v, now)
}

// OfKey returns the identity under which detached work of a key or an account runs, such
// as a batch. It reflects what it may do now, whichever secret it has.
func (k *Keyring) OfKey(ctx context.Context, id string) (*Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	if accounts.IsID(id) {
		return k.ofAccount(ctx, id)
	}
	r, err := k.store.findID(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, errDeleted
	case err != nil:
		return nil, err
	case r.blocked():
		return nil, errBlocked
	case !r.key.Expires.IsZero() && !k.now().Before(r.key.Expires):
		return nil, errExpired
	}
	return new(k.tiers.ofRecord(&r)), nil
}

// Of returns the identity under which detached work of a tenant runs when it
// was requested without a key.
func (k *Keyring) Of(ctx context.Context, organization, user string) (*Identity, error) {
	o, err := k.store.Organization(ctx, organization)
	if err != nil {
		return nil, err
	}
	if o.Blocked {
		return nil, errBlocked
	}
	return new(k.tiers.identity(&o, nil).of(user)), nil
}

// follow takes up changes until ctx ends. While the store cannot be reached, what
// is remembered ages.
func (k *Keyring) follow(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	failing, noted := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := k.Refresh(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			k.log.Warn("key store unreachable: accepting recently used keys", "for", knownAge, "error", err)
		}
		failing = err != nil
		if now := time.Now(); !failing && now.Sub(noted) >= usedEvery {
			noted = now
			k.noteUsed(ctx)
		}
	}
}

// noteUsed stores when keys were used since it was last noted.
func (k *Keyring) noteUsed(ctx context.Context) {
	k.mu.Lock()
	used, seen := k.used, k.seen
	k.used, k.seen = map[string]time.Time{}, map[accounts.Digest]time.Time{}
	k.mu.Unlock()
	var err error
	if len(used) > 0 {
		err = k.store.Used(ctx, used)
	}
	if len(seen) > 0 {
		err = errors.Join(err, k.store.accounts.Seen(ctx, seen))
	}
	if err != nil && ctx.Err() == nil {
		k.log.Warn("recording key usage failed", "error", err)
	}
}
