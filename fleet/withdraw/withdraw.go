// Package withdraw decides which requests a gateway withdraws from workers that have
// not begun them. A worker fills its passes best from a few requests that it holds, but
// what it holds waits for that worker alone: while its seats are taken, another may
// have become idle; and an engine that begins requests in the order in which they came
// lets one of a higher class wait for all before it.
//
// An attempt is withdrawn for one of two reasons:
//
//   - Another worker of the pool is idle. The attempt must have waited for longer than
//     what its own worker has cached of the prompt would take to compute there: so no
//     request leaves a warm cache for nothing, and none waits for more than twice the
//     least that it could have.
//   - A request of a higher class was sent after it to an engine that does not begin
//     higher classes first.
//
// Of one request it happens at most [Most] times, and never after its first token.
//
// What a worker has not begun is not known exactly: it reports how many of its requests
// wait, and the last that were sent are taken to be those. Parley workers decide
// themselves, between two steps, whether they have begun a request that is asked for
// back ([parley.Withdrawal]), so that none is computed twice. Of another engine's
// request a part of the prompt may have been computed in vain.
//
// The package is pure: it takes a state and a time and returns a plan.
package withdraw

import (
	"cmp"
	"slices"
	"time"

	"parley"
)

const (
	// Most is how often one request is withdrawn.
	Most = 3
	// Patience is how long a worker may hold an attempt before it is withdrawn for an
	// idle one: it may be about to begin.
	Patience = 250 * time.Millisecond
	// usualRate is how many prompt tokens a second a worker is taken to compute that has
	// not shown it.
	usualRate = 2000
)

// An Attempt is a request that a worker was sent.
type Attempt struct {
	Class parley.Class
	Sent  time.Time
	// Answered: its first token has come. Asked: it was asked for back already, and For
	// names the idle worker, if that was the reason.
	Answered, Asked bool
	For             string
	// Withdrawn is how often the request was withdrawn before.
	Withdrawn int
	// Cached is how many tokens of the prompt its worker had when it was sent.
	Cached int
	// Owner is for the caller.
	Owner any
}

// A Worker is one of a pool, with one model.
type Worker struct {
	Name string
	// Open: it may get work.
	Open bool
	// ByClass: it begins requests of higher classes first, as Parley's engine does.
	ByClass bool
	// Seats is how many requests it computes at once, 0 if it does not say; Running and
	// Waiting are what it reported at Reported.
	Seats, Running, Waiting int
	Reported                time.Time
	// Rate is how many prompt tokens it computes in a second, 0 if not known.
	Rate     float64
	Attempts []*Attempt
	// Owner is for the caller.
	Owner any
}

// Peers are the workers that could answer each other's requests.
type Peers struct {
	Workers []*Worker
	// Cached returns how many tokens of an attempt's prompt a worker has; ok is false
	// if that worker cannot take it.
	Cached func(a *Attempt, w *Worker) (tokens int, ok bool)
}

// A Withdrawal says that an attempt is withdrawn.
type Withdrawal struct {
	*Attempt
	From *Worker
	// To is the idle worker that it is withdrawn for, Behind the attempt of a higher
	// class; one of both is set.
	To     *Worker
	Behind *Attempt
}

// Plan returns what is withdrawn now, in the order in which it should be sent again.
func (p *Peers) Plan(now time.Time) (plan []Withdrawal) {
	for _, w := range p.Workers {
		if !w.ByClass {
			plan = append(plan, w.overtaken()...)
		}
	}
	planned := map[*Attempt]bool{}
	for _, x := range plan {
		planned[x.Attempt] = true
	}
	used := p.used()
	for _, x := range p.held() {
		if planned[x.Attempt] {
			continue
		}
		if to := p.idle(x, used, now); to != nil {
			used[to]++
			x.To = to
			plan = append(plan, x)
		}
	}
	return plan
}

// used counts the seats of each worker that are taken, those of attempts on their way
// included.
func (p *Peers) used() map[*Worker]int {
	coming := map[string]int{}
	for _, w := range p.Workers {
		for _, a := range w.Attempts {
			if a.Asked && !a.Answered {
				coming[a.For]++
			}
		}
	}
	used := map[*Worker]int{}
	for _, w := range p.Workers {
		used[w] = max(len(w.Attempts), w.Running+w.Waiting) + coming[w.Name]
	}
	return used
}

// unbegun returns the attempts that the worker is taken to hold unbegun, in the order
// in which it begins them: as many of the last that it knew of as it says, and what
// was sent after them.
func (w *Worker) unbegun() []*Attempt {
	var known, later []*Attempt
	for _, a := range w.Attempts {
		switch {
		case a.Answered:
		case a.Sent.After(w.Reported):
			later = append(later, a)
		default:
			known = append(known, a)
		}
	}
	slices.SortFunc(known, w.order)
	known = known[max(0, len(known)-w.Waiting):]
	if len(known) == 0 {
		return nil
	}
	list := slices.Concat(known, later)
	slices.SortFunc(list, w.order)
	return list
}

func (w *Worker) order(a, b *Attempt) int {
	if w.ByClass && a.Class != b.Class {
		return cmp.Compare(b.Class, a.Class)
	}
	return a.Sent.Compare(b.Sent)
}

// mayReturn reports whether an attempt may be asked for back.
func (a *Attempt) mayReturn() bool { return !a.Asked && a.Withdrawn < Most }

// overtaken returns the attempts that should let one of a higher class go first.
func (w *Worker) overtaken() (plan []Withdrawal) {
	for _, a := range w.unbegun() {
		var ahead *Attempt
		for _, b := range w.Attempts {
			if !b.Answered && b.Class > a.Class && b.Sent.After(a.Sent) &&
				(ahead == nil || b.Sent.Before(ahead.Sent)) {
				ahead = b
			}
		}
		if ahead != nil && a.mayReturn() {
			plan = append(plan, Withdrawal{Attempt: a, From: w, Behind: ahead})
		}
	}
	return plan
}

// held returns what may be withdrawn for an idle worker: of the highest class the one
// that has waited longest first.
func (p *Peers) held() (list []Withdrawal) {
	for _, w := range p.Workers {
		for _, a := range w.unbegun() {
			if a.mayReturn() {
				list = append(list, Withdrawal{Attempt: a, From: w})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Withdrawal) int {
		return cmp.Or(cmp.Compare(b.Class, a.Class), a.Sent.Compare(b.Sent))
	})
	return list
}

// idle returns the worker for which an attempt is withdrawn: one that can begin it at
// once and for which it has waited long enough; nil if there is none. A worker that does
// not say how many it computes at once is taken to compute as many as the attempt's own
// does now.
func (p *Peers) idle(x Withdrawal, used map[*Worker]int, now time.Time) (to *Worker) {
	waited := now.Sub(x.Sent)
	least := time.Duration(0)
	for _, w := range p.Workers {
		seats := cmp.Or(w.Seats, x.From.answered(), 1)
		if w == x.From || !w.Open || w.Waiting > 0 || used[w] >= seats {
			continue
		}
		cached, ok := p.Cached(x.Attempt, w)
		if !ok {
			continue
		}
		price := w.computes(max(0, x.Cached-cached))
		if waited >= Patience+price && (to == nil || price < least || price == least && used[w] < used[to]) {
			to, least = w, price
		}
	}
	return to
}

// answered counts the attempts that the worker has begun for certain.
func (w *Worker) answered() (n int) {
	for _, a := range w.Attempts {
		if a.Answered {
			n++
		}
	}
	return n
}

// computes returns how long the worker takes to compute prompt tokens.
func (w *Worker) computes(tokens int) time.Duration {
	return time.Duration(float64(tokens) / cmp.Or(w.Rate, usualRate) * float64(time.Second))
}
