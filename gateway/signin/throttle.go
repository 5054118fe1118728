package signin

import (
	"errors"
	"sync"
	"time"

	"parley"
	"parley/gateway/exchange"
)

// A throttle limits attempts by name: a number at once, and then one in each interval.
// It has no clock.
type throttle struct {
	burst    int
	interval time.Duration

	mu sync.Mutex
	// free is when the oldest attempt of a name stops counting, as if attempts were
	// made one interval apart.
	free map[string]time.Time
}

// throttleNamesMax bounds how many names are remembered.
const throttleNamesMax = 1 << 16

func newThrottle(burst int, interval time.Duration) *throttle {
	return &throttle{burst: burst, interval: interval, free: map[string]time.Time{}}
}

// take counts an attempt of a name, or returns after how long there may be another.
func (t *throttle) take(name string, now time.Time) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := t.free[name]
	if free.Before(now) {
		free = now
	}
	if wait = free.Sub(now) - time.Duration(t.burst-1)*t.interval; wait > 0 {
		return wait
	}
	t.forget(now)
	t.free[name] = free.Add(t.interval)
	return 0
}

// giveBack takes an attempt back, which was not a guess.
func (t *throttle) giveBack(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if free, ok := t.free[name]; ok {
		t.free[name] = free.Add(-t.interval)
	}
}

// forget makes room where none is left. Names that have all their attempts go first, then
// any until half are left, so that this is rarely done.
func (t *throttle) forget(now time.Time) {
	if len(t.free) < throttleNamesMax {
		return
	}
	for name, free := range t.free {
		if !free.After(now) {
			delete(t.free, name)
		}
	}
	for name := range t.free {
		if len(t.free) <= throttleNamesMax/2 {
			break
		}
		delete(t.free, name)
	}
}

// throttles limit guesses: by the account, whether it exists or not, and by the address
// from which they come. This process refuses by what it has seen itself, at no cost; what
// it lets pass is counted in the store, for all gateways together.
type throttles struct{ accounts, addresses *throttle }

func newThrottles() *throttles {
	return &throttles{accounts: newThrottle(10, 30*time.Second), addresses: newThrottle(30, 10*time.Second)}
}

// take counts an attempt, or returns after how long there may be another.
func (t *throttles) take(account, address string, now time.Time) (wait time.Duration) {
	wait = t.addresses.take(address, now)
	if wait == 0 && account != "" {
		if wait = t.accounts.take(account, now); wait > 0 {
			t.addresses.giveBack(address)
		}
	}
	return wait
}

// giveBack takes back an attempt that was right.
func (t *throttles) giveBack(account, address string) {
	t.addresses.giveBack(address)
	if account != "" {
		t.accounts.giveBack(account)
	}
}

// take counts an attempt of a caller to sign in to an account, which may be empty, or says
// when there may be another.
func (h *Handlers) take(x *exchange.Exchange, account string) error {
	ctx, address, now := x.Request.Context(), h.address(x), h.Now()
	wait := h.throttles.take(account, address, now)
	if wait > 0 {
		return tooMany(wait)
	}
	by := h.throttles.addresses
	wait, err := h.store().TakeAttempt(ctx, "address "+address, by.burst, by.interval, now)
	if err != nil || wait > 0 || account == "" {
		return errors.Join(err, tooMany(wait))
	}
	by = h.throttles.accounts
	wait, err = h.store().TakeAttempt(ctx, "account "+account, by.burst, by.interval, now)
	if wait > 0 {
		err = h.store().ReturnAttempt(ctx, "address "+address, h.throttles.addresses.interval)
	}
	return errors.Join(err, tooMany(wait))
}

// giveBack takes back an attempt that was right.
func (h *Handlers) giveBack(x *exchange.Exchange, account string) error {
	ctx, address := x.Request.Context(), h.address(x)
	h.throttles.giveBack(account, address)
	err := h.store().ReturnAttempt(ctx, "address "+address, h.throttles.addresses.interval)
	if account != "" {
		err = errors.Join(err, h.store().ReturnAttempt(ctx, "account "+account, h.throttles.accounts.interval))
	}
	return err
}

// tooMany is the error for a caller who must wait; nil for none.
func tooMany(wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	wait = wait.Truncate(time.Second) + time.Second
	return &parley.Error{
		Code:    parley.RateLimited,
		Message: "Too many attempts to sign in. Try again in " + wait.String() + ".",
		Wait:    wait,
	}
}

// address is what guesses are counted by.
func (h *Handlers) address(x *exchange.Exchange) string {
	return exchange.ClientAddr(x.Request, x.Server.TrustedProxies).String()
}
