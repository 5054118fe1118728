package serve

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"parley/fleet"
	"parley/fleet/discover"
)

// absentees are the workers that are known and could not join yet, for the admin page.
type absentees struct {
	mu     sync.Mutex
	byName map[string]fleet.Standing
}

// watch returns a connector that notes why workers of a pool cannot join, until they can or are no longer known.
func (a *absentees) watch(pool string, connect fleet.Connector) fleet.Connector {
	return func(ctx context.Context, at discover.Address) (fleet.Member, error) {
		m, err := connect(ctx, at)
		if err != nil && ctx.Err() == nil {
			known := a.add(fleet.Standing{
				Name:    at.Name,
				Pool:    pool,
				Kind:    at.Kind,
				State:   fleet.Joining,
				Trouble: err.Error(),
			})
			if !known {
				context.AfterFunc(ctx, func() { a.remove(at.Name) })
			}
		} else {
			a.remove(at.Name)
		}
		return m, err
	}
}

// add notes a worker, and reports whether it was noted before.
func (a *absentees) add(s fleet.Standing) (known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known = a.byName[s.Name]
	if a.byName == nil {
		a.byName = map[string]fleet.Standing{}
	}
	a.byName[s.Name] = s
	return known
}

func (a *absentees) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byName, name)
}

// list returns them by pool and name.
func (a *absentees) list() []fleet.Standing {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.SortedFunc(maps.Values(a.byName), func(a, b fleet.Standing) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name))
	})
}
