package fleet

import "sync"

// An absence is a worker that is known and could not join, and why.
type absence struct{ name, pool, kind, trouble string }

// absentees are the absences, each under a key of who noted it.
type absentees struct {
	mu    sync.Mutex
	byKey map[any]absence
}

func (a *absentees) add(key any, of absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey == nil {
		a.byKey = map[any]absence{}
	}
	a.byKey[key] = of
}

func (a *absentees) remove(key any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byKey, key)
}

// each returns the absences in no order, of one pool or, if that is empty, of all.
func (a *absentees) each(pool string) (out []absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range a.byKey {
		if pool == "" || pool == of.pool {
			out = append(out, of)
		}
	}
	return out
}
