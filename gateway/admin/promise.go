package admin

import (
	"time"

	"parley"
)

// A Promise is one objective, and how it is kept.
type Promise struct {
	// Name is availability, ttft or gap. Objective is to whose requests the latter are
	// promised.
	Name      string `json:"name"`
	Objective string `json:"objective,omitempty"`
	// Goal is the share of requests or tokens for which it is meant, Limit the time
	// in seconds that they may take; 0 for availability.
	Goal  float64 `json:"goal"`
	Limit float64 `json:"limit_seconds,omitempty"`
	// Kept is the share for which it was kept over the last hour.
	Kept float64 `json:"kept"`
	// Count is of how many.
	Count float64 `json:"count"`
	// Burn is how fast the budget of errors is used up: 1 uses just all of it, over
	// five minutes and over an hour. Both above 14.4 spend a month's budget in two
	// days, and somebody must act at once.
	Burn5m float64 `json:"burn_5m"`
	Burn1h float64 `json:"burn_1h"`
}

// AvailabilityGoal is the share of requests that are to be answered.
const AvailabilityGoal = 0.999

// burnShort and burnLong are what budgets are watched over.
const (
	burnShort = 5 * time.Minute
	burnLong  = Kept
)

// promises says how each objective is kept.
func (h *History) promises(objectives parley.Objectives) []Promise {
	now, short, long := h.latest, h.before(burnShort), h.before(burnLong)
	list := []Promise{promise("availability", AvailabilityGoal, 0, now, short, long, served)}
	for i := range objectives {
		o := &objectives[i]
		add := func(name string, goal float64, limit time.Duration, times func(*Tokens) *Histogram) {
			if limit == 0 {
				return
			}
			p := promise(name, goal, limit.Seconds(), now, short, long, func(from, to *Reading) (bad, all float64) {
				return late(times(from.tokensOf(o.Name)), times(to.tokensOf(o.Name)), limit)
			})
			p.Objective = o.Name
			list = append(list, p)
		}
		add("ttft", o.TTFTShare, o.TTFT, firsts)
		add("gap", o.TPOTShare, o.TPOT, gaps)
	}
	return list
}

func firsts(t *Tokens) *Histogram { return &t.TTFT }
func gaps(t *Tokens) *Histogram   { return &t.Gap }

func promise(name string, goal, limit float64, now, short, long *Reading, count func(from, to *Reading) (bad, all float64)) Promise {
	p := Promise{Name: name, Goal: goal, Limit: limit, Kept: 1}
	bad, all := count(long, now)
	p.Count = all
	if all > 0 {
		p.Kept = round(1 - bad/all)
		p.Burn1h = round(bad / all / (1 - goal))
	}
	if bad, all := count(short, now); all > 0 {
		p.Burn5m = round(bad / all / (1 - goal))
	}
	return p
}

// served counts requests that were not answered although nothing was wrong with
// them. Those whose client left, or who asked for too much, say nothing of us.
func served(from, to *Reading) (bad, all float64) {
	bad = delta(from.FailedTotal, to.FailedTotal) + delta(from.TurnedAwayTotal, to.TurnedAwayTotal)
	return bad, bad + delta(from.OKTotal, to.OKTotal)
}

// late counts times over a limit.
func late(from, to *Histogram, limit time.Duration) (bad, all float64) {
	h := to.since(from)
	return h.Over(limit.Seconds()), float64(h.Count)
}
