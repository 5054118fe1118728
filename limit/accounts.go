package limit

import "time"

// Accounts are what accounts have used, by their names.
type Accounts map[string]*State

// Of returns the states of a hold's accounts, to be changed. Those that are new have used nothing.
func (a Accounts) Of(h *Hold) []*State { return a.appendOf(nil, h) }

// accountsUsual is how many accounts a hold has at most, as a rule.
const accountsUsual = 8

func (a Accounts) appendOf(states []*State, h *Hold) []*State {
	for i := range h.Accounts {
		name := h.Accounts[i].Name
		s := a[name]
		if s == nil {
			s = &State{}
			a[name] = s
		}
		states = append(states, s)
	}
	return states
}

// Reserve reserves a hold of its accounts, or says why not. Those with a budget must be seeded.
func (a Accounts) Reserve(h *Hold, now time.Time) (v Verdict) {
	var room [accountsUsual]*State
	states := a.appendOf(room[:0], h)
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
	var room [accountsUsual]*State
	for i, s := range a.appendOf(room[:0], h) {
		limits := &h.Accounts[i].Limits
		s.flow(limits, now)
		s.settle(limits, &h.Use, used)
	}
}
