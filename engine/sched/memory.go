package sched

import (
	"slices"
	"time"

	"parley"
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
		if q.Background && s.busy {
			break
		}
		if why := s.begin(q, now); why == ForTurn {
			s.waiting = slices.Delete(s.waiting, i, i+1)
		} else if !s.reclaim(q, now) {
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
	q.note(ForTurn, now)
	q.stays = q.stays || s.goesFirst(q, now)
	if q.admitted {
		q.Away += now.Sub(q.since)
	} else {
		q.Cached, q.admitted = got, true
	}
	q.Computed, q.mark, q.boarding = got.HitTokens, len(q.Tokens), true
	q.recomputed, q.yielded = len(q.Tokens)-got.HitTokens, false
	s.places += 1 + q.Forks
	s.running = append(s.running, q)
	return ForTurn
}

// note ends the wait that a sequence is in and begins another.
func (q *Seq) note(cause Wait, now time.Time) {
	if !q.admitted {
		q.Waits[q.cause] += now.Sub(q.noted)
	}
	q.cause, q.noted = cause, now
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

// room makes room for tokens of a running sequence in total, at the cost of
// others if need be, or of the sequence itself. It reports whether the
// sequence still runs.
func (s *Scheduler) room(q *Seq, tokens int, now time.Time) bool {
	for {
		needs := blocks(tokens) - len(q.Table.Blocks)
		if needs <= 0 || needs <= s.cache.Available()-s.lent(q.Class) && s.cache.Grow(&q.Table, tokens, now) {
			return true
		}
		victim := s.victim(q)
		s.preempt(victim, now)
		if victim == q {
			return false
		}
	}
}

// victim returns who makes room for q: a sequence that is paused, else one in
// the background, else one of the lowest class, of it the newest, that has got on since it was preempted
// before; q itself if all others rank above it.
func (s *Scheduler) victim(q *Seq) *Seq {
	worst := q
	for _, v := range s.running {
		if v.Paused {
			return v
		}
		if v == q || v.again && len(v.Tokens) == v.mark {
			continue
		}
		if v.below(worst) {
			worst = v
		}
	}
	return worst
}

// below reports whether q makes room before b does.
func (q *Seq) below(b *Seq) bool {
	switch {
	case q.Background != b.Background:
		return q.Background
	case q.Class != b.Class:
		return q.Class < b.Class
	}
	return q.order > b.order
}

// preempt takes a running sequence's memory away and lets it wait again.
func (s *Scheduler) preempt(q *Seq, now time.Time) {
	s.stats.Preempted++
	s.stats.Lost += uint64(q.Computed)
	s.places -= 1 + q.Forks
	s.seal(q)
	var retain time.Duration
	if q.yielded { // it continues as soon as there is a seat
		retain = s.cfg.AgeMax
	}
	s.cache.Suspend(&q.Table, retain, now)
	q.Computed, q.Draft, q.again, q.since = 0, 0, true, now
	q.Preempted++
	i := slices.Index(s.running, q)
	s.running = slices.Delete(s.running, i, i+1)
	s.waiting = append(s.waiting, q)
}

// Forget takes tokens out of the middle of a sequence, whose text has outgrown
// its room: the first keep stay, and the latest ones. What follows the first
// stands elsewhere now and is computed again.
func (s *Scheduler) Forget(q *Seq, keep, drop int, now time.Time) {
	s.Rejoin(q, now)
	q.Tokens = slices.Delete(q.Tokens, keep, keep+drop)
	q.hashes = q.hashes[:min(len(q.hashes), keep/kv.BlockTokens)]
	q.Prompt = min(q.Prompt, len(q.Tokens))
}

// Rejoin lets a running sequence wait until there is room for all its known
// tokens, because they are not those that it was given memory for. What it
// computed may be found in the cache.
func (s *Scheduler) Rejoin(q *Seq, now time.Time) {
	if i := slices.Index(s.running, q); i >= 0 {
		s.release(q, now)
		s.places -= 1 + q.Forks
		s.running = slices.Delete(s.running, i, i+1)
		s.waiting = append(s.waiting, q)
		q.since, q.yielded = now, true
	}
	q.Computed, q.Draft = 0, 0
}

// lent returns how many blocks other classes have reserved and not used.
func (s *Scheduler) lent(but parley.Class) (n int) {
	if s.cfg.Reserve == [parley.Classes]float64{} {
		return 0
	}
	var held [parley.Classes]int
	for _, q := range s.running {
		held[q.Class] += len(q.Table.Blocks)
	}
	for i, share := range s.cfg.Reserve {
		if parley.Class(i) != but {
			n += max(0, int(share*float64(s.cfg.Blocks))-held[i])
		}
	}
	return n
}

// Fork makes child a continuation of q's prompt, which has been computed and
// nothing after it. It shares the prompt's full blocks; if there is no block
// for the rest, it waits for one.
func (s *Scheduler) Fork(q, child *Seq, now time.Time) {
	child.Prompt, child.Most, child.Retain = q.Prompt, q.Most, q.Retain
	child.Salt, child.PublicTokens = q.Salt, q.PublicTokens
	child.Class, child.Tenant, child.Background, child.Deadline = q.Class, q.Tenant, q.Background, q.Deadline
	child.Objective, child.Waited, child.stays, child.since = q.Objective, q.Waited, q.stays, now
	child.order, child.arrived, child.hashes = q.order, q.arrived, slices.Clone(q.hashes)
	child.Cached, child.admitted = q.Cached, true
	q.Forks--
	s.joins(child)
	if s.cache.Available() > s.lent(q.Class) && s.cache.Fork(&q.Table, &child.Table, q.Prompt, now) {
		child.Computed, child.mark, child.boarding = q.Prompt, q.Prompt, true
		s.running = append(s.running, child)
		return
	}
	s.places--
	s.waiting = append(s.waiting, child)
}

// Remove takes a sequence out, wherever it stands. What it computed may stay
// in the cache.
func (s *Scheduler) Remove(q *Seq, now time.Time) {
	if i := slices.Index(s.waiting, q); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.leaves(q)
		return
	}
	i := slices.Index(s.running, q)
	if i < 0 {
		return
	}
	s.running = slices.Delete(s.running, i, i+1)
	s.leaves(q)
	s.places -= 1 + q.Forks
	s.release(q, now)
	q.Forks = 0
}

// release gives up a sequence's memory. What it computed may stay in the cache.
func (s *Scheduler) release(q *Seq, now time.Time) {
	s.seal(q)
	s.cache.Release(&q.Table, now)
}

// seal names the blocks of a sequence that became full, so that others can share
// them. The last known token does not count: what was computed in its place may
// be a guess that it refuted.
func (s *Scheduler) seal(q *Seq) {
	const size = kv.BlockTokens
	if s.cfg.Baseline.NoPrefixCache {
		return
	}
	known := min(q.Computed, len(q.Tokens)-1)
	for i := q.Table.Sealed(); (i+1)*size <= known; i++ {
		q.hash((i + 1) * size)
		err := s.cache.Seal(&q.Table, q.hashes[i], q.Tokens[i*size:(i+1)*size])
		if err != nil || q.Table.Sealed() != i+1 {
			break
		}
	}
}

func (s *Scheduler) sealAll() {
	for _, q := range s.running {
		s.seal(q)
	}
}
