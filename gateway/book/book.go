package book

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/gateway/db"
	"parley/limit"
)

// A Book keeps accounts. It is safe for concurrent use.
type Book interface {
	// Reserve takes what h may use of all its accounts, or of none and says why.
	// An error is the book's being out of reach: nothing is known then.
	Reserve(ctx context.Context, h *limit.Hold) (limit.Verdict, error)
	// Settle replaces what h reserved by what it used. It must be called once for
	// every Reserve that was not refused and whose use lasts; for others it does
	// nothing. It does not fail: a book that is out of reach is told later.
	Settle(h *limit.Hold, used limit.Use)
	// Close keeps what is to be kept.
	Close() error
}

// A Memory is the book of one process. It survives the process if Load and Save
// are set.
type Memory struct {
	// Now is the clock; default: time.Now.
	Now func() time.Time
	// Spent says what an account has spent in the month of now. It is asked once
	// for each account with a budget; nil is nothing.
	Spent func(ctx context.Context, account string, now time.Time) (limit.Micros, error)
	// Load returns the accounts that were kept, Save keeps some. What was spent
	// and what is reserved is not kept: the one is found by Spent, the others end
	// with the process.
	Load func(ctx context.Context) (map[string]limit.State, error)
	Save func(ctx context.Context, changed map[string]limit.State) error

	// Watch is called for budgets that are nearly spent; nil for no alerts.
	Watch *Watch
	// Log hears when saving fails; default: slog.Default().
	Log *slog.Logger

	stop  context.CancelFunc
	saver sync.WaitGroup

	mu       sync.Mutex
	accounts limit.Accounts
	changed  map[string]bool
	// forgot is when accounts were last searched for ones to forget.
	forgot time.Time
	// seeding are accounts of which it is found out what they have spent.
	seeding db.Searches[struct{}]
}

// A spending says what an account has spent in the month of now.
type spending func(ctx context.Context, account string, now time.Time) (limit.Micros, error)

// newMemoryWith is NewMemory for accounts that have spent something before.
func newMemoryWith(now func() time.Time, spent spending) *Memory {
	m := NewMemory(now)
	m.Spent = spent
	return m
}

// NewMemory returns a book that ends with the process.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{Now: now}
	m.begin()
	return m
}

// OpenMemory loads what was kept, and saves again what changes. The book must be
// closed.
func OpenMemory(ctx context.Context, m *Memory) (*Memory, error) {
	m.begin()
	if m.Load == nil {
		return m, nil
	}
	kept, err := m.Load(ctx)
	if err != nil {
		return nil, err
	}
	for name, s := range kept {
		m.accounts[name] = &limit.State{At: s.At, Debt: s.Debt}
	}
	background, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.saver.Go(func() { m.keep(background) })
	return m, nil
}

func (m *Memory) begin() {
	m.accounts, m.changed, m.stop = limit.Accounts{}, map[string]bool{}, func() {}
	if m.Now == nil {
		m.Now = time.Now
	}
	if m.Log == nil {
		m.Log = slog.Default()
	}
}

// saveEvery is how much of what was used a crash forgets at most.
const saveEvery = time.Second

// keep saves until ctx ends.
func (m *Memory) keep(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := m.Keep(ctx); err != nil && ctx.Err() == nil {
			m.Log.Error("saving limit usage failed; retrying", "error", err)
		}
	}
}

// Reserve implements [Book].
func (m *Memory) Reserve(ctx context.Context, h *limit.Hold) (limit.Verdict, error) {
	if err := m.seed(ctx, h); err != nil {
		return limit.Verdict{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	v := m.accounts.Reserve(h, now)
	m.look(h)
	m.forget(now)
	return v, nil
}

// Settle implements [Book].
func (m *Memory) Settle(h *limit.Hold, used limit.Use) {
	if !h.Use.Lasts() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts.Settle(h, &used, m.Now())
	m.look(h)
}

// look notes which accounts a hold has changed, and has their budgets watched. The lock is held.
func (m *Memory) look(h *limit.Hold) {
	for i := range h.Accounts {
		a := &h.Accounts[i]
		if m.Save != nil {
			m.changed[a.Name] = true
		}
		m.Watch.look(a, m.accounts[a.Name])
	}
}

// seed finds out what was spent by accounts that have a budget and are new.
func (m *Memory) seed(ctx context.Context, h *limit.Hold) error {
	if h.Use.Cost == 0 {
		return nil
	}
	for i := range h.Accounts {
		if account := &h.Accounts[i]; m.unseeded(account) {
			if err := m.seedOne(ctx, *account); err != nil {
				return err
			}
		}
	}
	return nil
}

// seedOne asks what an account has spent. Requests that find it unknown at the
// same time wait for one answer.
func (m *Memory) seedOne(ctx context.Context, account limit.Account) error {
	_, err := m.seeding.Find(ctx, account.Name, func(ctx context.Context) (none struct{}, err error) {
		if !m.unseeded(&account) { // another search has ended meanwhile
			return none, nil
		}
		now := m.Now()
		spent, err := askSpent(ctx, m.Spent, account.Name, now)
		if err != nil {
			return none, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.accounts.Of(&limit.Hold{Accounts: []limit.Account{account}})[0].Seed(spent, now)
		return none, nil
	})
	return err
}

// spentMax bounds how long it may take to find out what an account has spent.
const spentMax = 30 * time.Second

// askSpent finds out what an account has spent in the month of now: nothing, if ask is
// nil.
func askSpent(ctx context.Context, ask spending, account string, now time.Time) (limit.Micros, error) {
	if ask == nil {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, spentMax)
	defer cancel()
	return ask(ctx, account, now)
}

func (m *Memory) unseeded(a *limit.Account) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.accounts[a.Name]
	return a.Limits.MonthlyBudget > 0 && (s == nil || s.Month == 0)
}

// idleMax is how long an account without a budget is remembered that is not used:
// longer than any bucket takes to fill. Callers may name users of their own, so
// accounts that are never forgotten could be made without end.
const idleMax = time.Hour

// forget removes accounts that have used nothing for so long that nothing of it
// matters. The lock is held.
func (m *Memory) forget(now time.Time) {
	if now.Sub(m.forgot) < idleMax/10 {
		return
	}
	m.forgot = now
	for name, s := range m.accounts {
		if s.Month == 0 && s.Running == 0 && !m.changed[name] && now.UnixMicro()-s.At > idleMax.Microseconds() {
			delete(m.accounts, name)
		}
	}
}

// Keep saves what has changed since it was last called.
func (m *Memory) Keep(ctx context.Context) error {
	if m.Save == nil {
		return nil
	}
	m.mu.Lock()
	changed := map[string]limit.State{}
	for name := range m.changed {
		changed[name] = *m.accounts[name]
	}
	clear(m.changed)
	m.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	err := m.Save(ctx, changed)
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for name := range changed {
			m.changed[name] = true
		}
	}
	return err
}

// closeWait bounds the last saving.
const closeWait = 5 * time.Second

// Close implements [Book].
func (m *Memory) Close() error {
	m.stop()
	m.saver.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return m.Keep(ctx)
}
