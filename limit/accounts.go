package limit

import "time"

// Accounts are what accounts have used, by their names.
type Accounts map[string]*State

// Of returns the states of a hold's accounts, to be changed. Those that are new have used nothing.
func (a Accounts) Of(h *Hold) []*State {
	states := make([]*State, len(h.Accounts))
	for i := range h.Accounts {
		name := h.Accounts[i].Name
		if states[i] = a[name]; states[i] == nil {
			states[i] = &State{}
			a[name] = states[i]
		}
	}
	return states
}

// Reserve reserves a hold of its accounts, or says why not. Those with a budget must be seeded.
func (a Accounts) Reserve(h *Hold, now time.Time) (v Verdict) {
	states := a.Of(h)
	for i, s := range states {
		limits := &h.Accounts[i].Limits
		s.flow(limits, now)
		v.Refuse(i, s.Refuses(limits, &h.Use))
	}
	for i, s := range states {
		limits := &h.Accounts[i].Limits
		if v.Refused == "" {
			s.reserve(limits, &h.Use)
		}
		s.Show(limits, &h.Use, &v)
	}
	return v
}

// Settle replaces what a hold reserved by what was used.
func (a Accounts) Settle(h *Hold, used *Use, now time.Time) {
	for i, s := range a.Of(h) {
		limits := &h.Accounts[i].Limits
		s.flow(limits, now)
		s.settle(limits, &h.Use, used)
	}
}
