package book

import (
	"sync"

	"parley/limit"
)

// A Watch hears of budgets that are nearly spent, of each account once a month. It
// looks at accounts whenever something is reserved of or settled with them: two
// products are compared, and only beyond the alert there is more to do.
type Watch struct {
	// Tell takes the news of an account. It must not wait: it is called while others
	// do. If it cannot take the news it returns false, and hears them again with the
	// account's next request.
	Tell func(account string, s limit.Standing) bool

	// told has the month that was told last of an account. It is written under mu.
	told sync.Map
	mu   sync.Mutex
}

// look reports an account whose budget is newly near its end.
func (w *Watch) look(a *limit.Account, s *limit.State) {
	if w == nil || s.Month == 0 {
		return
	}
	if standing := s.Standing(&a.Limits); standing.IsNews(0) {
		w.tellOnce(a.Name, standing)
	}
}

func (w *Watch) tellOnce(account string, s limit.Standing) {
	if !s.IsNews(w.toldOf(account)) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.IsNews(w.toldOf(account)) && w.Tell(account, s) {
		w.told.Store(account, s.Month)
	}
}

func (w *Watch) toldOf(account string) limit.Month {
	month, _ := w.told.Load(account)
	told, _ := month.(limit.Month)
	return told
}

// Again forgets that this month's news of an account were told, so that they are
// told with its next request.
func (w *Watch) Again(account string) { w.told.Delete(account) }
