package host

import (
	"cmp"
	"slices"
	"time"
)

// A resident is a model that is in memory, as the decision sees it.
type resident struct {
	title *Title
	bytes int64
	// users are the requests that it answers; used is when the last one ended.
	users int
	used  time.Time
}

// A residency says what to unload.
type residency struct {
	// unload are the models that leave memory now. None of them has users.
	unload []*Title
	// retire are models that take no new requests, so that they can leave: more have to
	// leave than are idle.
	retire []*Title
}

// makeRoom says which models leave so that need bytes of the budget are free: the ones
// that were used least recently, and of them no more than necessary. Idle ones leave at
// once. If these are not enough and the load has waited for its turn, busy ones are to
// end what they have. It returns ok if need will be free as soon as unload has happened.
func makeRoom(loaded []resident, budget, need int64, patient bool) (plan residency, ok bool) {
	free := budget
	for _, r := range loaded {
		free -= r.bytes
	}
	order := slices.Clone(loaded)
	slices.SortFunc(order, func(a, b resident) int {
		if busy := cmp.Compare(min(a.users, 1), min(b.users, 1)); busy != 0 {
			return busy
		}
		return a.used.Compare(b.used)
	})
	for _, r := range order {
		if free >= need {
			break
		}
		free += r.bytes
		if r.users == 0 {
			plan.unload = append(plan.unload, r.title)
		} else {
			plan.retire = append(plan.retire, r.title)
		}
	}
	if len(plan.retire) == 0 {
		return plan, free >= need
	}
	if patient {
		plan.retire = nil
	}
	plan.unload = nil // they would leave for nothing yet
	return plan, false
}

// expired returns the models that have been idle for as long as they are kept, which is
// usual unless one has a time of its own.
func expired(loaded []resident, usual time.Duration, now time.Time) (idle []*Title) {
	for _, r := range loaded {
		keep := r.title.keepAlive(usual)
		if r.users == 0 && keep >= 0 && now.Sub(r.used) >= keep {
			idle = append(idle, r.title)
		}
	}
	return idle
}
