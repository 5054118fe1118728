package admin

import (
	"time"

	"parley"
)

// A Promise is one objective, and how it is kept.
type Promise struct {
	// Name is availability, ttft or gap.
	Name string `json:"name"`
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

// The shares of requests and tokens for which promises are meant.
const (
	AvailabilityGoal = 0.999
	TTFTGoal         = 0.95
	GapGoal          = 0.99
)

// burnShort and burnLong are what budgets are watched over.
const (
	burnShort = 5 * time.Minute
	burnLong  = Kept
)

// promises says how each objective is kept.
func (h *History) promises(slo parley.SLO) []Promise {
	now, short, long := h.latest, h.before(burnShort), h.before(burnLong)
	list := []Promise{promise("availability", AvailabilityGoal, 0, now, short, long, served)}
	if slo.TTFT > 0 {
		list = append(list, promise("ttft", TTFTGoal, slo.TTFT.Seconds(), now, short, long, func(from, to *Reading) (bad, all float64) {
			return late(&from.TTFT, &to.TTFT, slo.TTFT)
		}))
	}
	if slo.TPOT > 0 {
		list = append(list, promise("gap", GapGoal, slo.TPOT.Seconds(), now, short, long, func(from, to *Reading) (bad, all float64) {
			return late(&from.Gap, &to.Gap, slo.TPOT)
		}))
	}
	return list
}

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
