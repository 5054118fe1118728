package sched

import (
	"slices"
	"time"

	"parley/engine/kv"
)

// admit lets waiting sequences run, in strict order, while there is room, and
// returns what those that are left wait for.
func (s *Scheduler) admit(now time.Time) Wait {
	if s.closed() {
		return ForSeat
	}
	for len(s.waiting) > 0 {
		i := s.first(now)
		if i < 0 {
			break
		}
		q := s.waiting[i]
		if q.Background && s.pass.busy {
			break
		}
		if why := s.begin(q, now); why == ForTurn {
			s.waiting = slices.Delete(s.waiting, i, i+1)
		} else if !(why == ForMemory && (s.trim() || s.yieldIntake(now))) && !s.reclaim(q, now) {
			return why
		}
	}
	return ForTurn
}

// begin gives a waiting sequence a seat and memory, or returns which of them there
// is none of.
func (s *Scheduler) begin(q *Seq, now time.Time) Wait {
	switch {
	case s.seatsShort(q) > 0:
		return ForSeat
	case s.blocksShort(q) > 0:
		return ForMemory
	}
	q.hash(len(q.Tokens) - q.Coming)
	claim := kv.Claim{
		Prompt: q.Tokens,
		Hashes: q.hashes,
		Tenant: q.Tenant,
		Class:  q.Class.String(),
		Retain: q.Retain,
		Above:  s.tooSlow(),
		Again:  q.admitted,
	}
	if q.EveryRow || q.Whole || s.cfg.Baseline.NoPrefixCache {
		claim.Hashes = nil
	}
	got, ok := s.cache.Admit(&q.Table, &claim, s.firstTokens(q), now)
	if !ok {
		return ForMemory
	}
	q.begin(got, s.goesFirst(q, now), now)
	s.seats.places += 1 + q.Forks
	s.running = append(s.running, q)
	return ForTurn
}

// reclaim takes the seat and the memory of a running sequence for q: of a paused one,
// or one in the background, for which no client waits, else of a lower class, if q
// must not wait. It reports whether there was one.
func (s *Scheduler) reclaim(q *Seq, now time.Time) bool {
	i := slices.IndexFunc(s.running, func(v *Seq) bool { return v.Paused || v.Background && !q.Background })
	if i >= 0 {
		s.preempt(s.running[i], now)
		return true
	}
	if v := s.yields(q, now); v != nil {
		s.yield(v, now)
		return true
	}
	return false
}
