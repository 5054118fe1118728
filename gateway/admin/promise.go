package admin

import (
	"fmt"
	"time"

	"parley"
)

// AvailabilityGoal is the share of requests that must be answered.
const AvailabilityGoal = 0.999

// burnShort and burnLong are the windows of burn rates.
const (
	burnShort = 5 * time.Minute
	burnLong  = Kept
)

// promises evaluates each objective.
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

func promise(name string, goal, limit float64, now, short, long *Reading,
	count func(from, to *Reading) (bad, all float64)) Promise {
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

// served counts valid requests and those of them that were not answered. Requests
// that were cancelled or exceeded a limit do not count.
func served(from, to *Reading) (bad, all float64) {
	bad = delta(from.FailedTotal, to.FailedTotal) + delta(from.TurnedAwayTotal, to.TurnedAwayTotal)
	return bad, bad + delta(from.OKTotal, to.OKTotal)
}

// late counts times over a limit.
func late(from, to *Histogram, limit time.Duration) (bad, all float64) {
	h := to.since(from)
	return h.Over(limit.Seconds()), float64(h.Count)
}

// missedPromises describes the objectives that were missed over the last hour.
func missedPromises(promises []Promise) (missed []string) {
	what := map[string]string{"availability": "of requests were answered", "ttft": "of first tokens were in time",
		"gap": "of tokens were in time"}
	for i := range promises {
		p := &promises[i]
		if p.Count == 0 || p.Burn1h <= 1 {
			continue
		}
		whose := ""
		if p.Objective != "" && p.Objective != parley.DefaultObjective {
			whose = " for " + p.Objective
		}
		missed = append(missed, fmt.Sprintf("%s %s%s (SLO %s)", percent(p.Kept), what[p.Name], whose, percent(p.Goal)))
	}
	return missed
}
