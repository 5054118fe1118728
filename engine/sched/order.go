package sched

import (
	"slices"
	"time"

	"parley"
)

// The ranks of waiting sequences: those in the background, then three for each
// class, the lowest first, then those that waited too long.
const (
	rankBackground = 0
	rankClass      = 1
	rankFirst      = rankClass + 3*parley.Classes
)

// rank returns the rank of a waiting sequence, and whether those of the rank go by
// turns; otherwise they go in the order in which they came.
func (s *Scheduler) rank(q *Seq, now time.Time) (rank int, turns bool) {
	rank = rankClass + 3*int(q.Class)
	switch {
	case q.Background:
		return rankBackground, false
	case s.goesFirst(q, now):
		return rankFirst, false
	case q.yielded:
		return rank + 2, false
	case s.aged(q, now):
		return rank + 1, false
	}
	return rank, true
}

// first returns which of the waiting sequences is admitted next, -1 if all are
// paused or have a token coming.
func (s *Scheduler) first(now time.Time) int {
	s.settleSeats(now)
	var best *Seq
	most, turns := -1, false
	for _, q := range s.waiting {
		if q.Paused || q.Coming > 0 {
			continue
		}
		rank, byTurns := s.rank(q, now)
		switch {
		case rank > most:
			best, most, turns = q, rank, byTurns
			s.seats.heads = append(s.seats.heads[:0], q)
		case rank == most && turns:
			s.enterHeads(q)
		case rank == most && q.order < best.order:
			best = q
		}
	}
	if turns {
		best = slices.MinFunc(s.seats.heads, func(a, b *Seq) int { return a.due().Compare(b.due()) })
	}
	return slices.Index(s.waiting, best)
}

// enterHeads makes q the first of those with its objective, if its turn is earlier.
func (s *Scheduler) enterHeads(q *Seq) {
	for i, h := range s.seats.heads {
		if h.Objective == q.Objective {
			if s.ledger.compare(q, h) < 0 {
				s.seats.heads[i] = q
			}
			return
		}
	}
	s.seats.heads = append(s.seats.heads, q)
}

// aged reports whether a sequence has waited for too long.
func (s *Scheduler) aged(q *Seq, now time.Time) bool { return now.Sub(q.since) >= s.cfg.AgeMax }

// goesFirst reports whether a sequence goes before all classes: it has waited too
// long, and its class has had less than its share of the seats for as long.
func (s *Scheduler) goesFirst(q *Seq, now time.Time) bool {
	owed := s.seats.owed[q.Class]
	return q == s.background.favoured || s.aged(q, now) && !owed.IsZero() && now.Sub(owed) >= s.cfg.AgeMax
}

// settleSeats notes since when classes have less than their share of the seats: less
// than one, or than what they have by weight.
func (s *Scheduler) settleSeats(now time.Time) {
	held, fair := s.seatsHeld(), s.fairSeats()
	for class := range s.seats.owed {
		switch short := held[class] < max(1, fair[class]) && s.ledger.classes[class].present > 0; {
		case !short:
			s.seats.owed[class] = time.Time{}
		case s.seats.owed[class].IsZero():
			s.seats.owed[class] = now
		}
	}
}
