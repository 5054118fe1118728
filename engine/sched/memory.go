package sched

import (
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
)

// room makes room for tokens of a running sequence in total, at the cost of
// others if need be, or of the sequence itself. It reports whether the
// sequence still runs.
func (s *Scheduler) room(q *Seq, tokens int, now time.Time) bool {
	for {
		needs := blocks(tokens) - len(q.Table.Blocks)
		if needs <= 0 || needs <= s.cache.Available()-s.lent(q.Class) && s.cache.Grow(&q.Table, tokens, now) {
			return true
		}
		if s.trim() || s.yieldIntake(now) {
			continue
		}
		victim := s.victim(q)
		s.preempt(victim, now)
		if victim == q {
			return false
		}
	}
}

// trim frees blocks that running sequences will not look at again, if the model has windows in all layers. It reports
// whether there were any.
func (s *Scheduler) trim() bool {
	if s.cfg.Window == 0 {
		return false
	}
	freed := 0
	for _, q := range s.running {
		freed += s.cache.Trim(&q.Table, max(0, q.Computed-s.cfg.Window)/kv.BlockTokens)
	}
	return freed > 0
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
	s.seats.places -= 1 + q.Forks
	s.seal(q)
	var retain time.Duration
	if q.yielded { // it continues as soon as there is a seat
		retain = s.cfg.AgeMax
	}
	s.cache.Suspend(&q.Table, retain, now)
	q.preempt(now)
	i := slices.Index(s.running, q)
	s.running = slices.Delete(s.running, i, i+1)
	s.waiting = append(s.waiting, q)
}

// Forget takes tokens out of the middle of a sequence, whose text has outgrown
// its room: the first keep stay, and the latest ones. What follows the first
// stands elsewhere now and is computed again.
func (s *Scheduler) Forget(q *Seq, keep, drop int, now time.Time) {
	s.Rejoin(q, now)
	q.forget(keep, drop)
}

// Rejoin lets a running sequence wait until there is room for all its known
// tokens, because they are not those that it was given memory for. What it
// computed may be found in the cache.
func (s *Scheduler) Rejoin(q *Seq, now time.Time) {
	if i := slices.Index(s.running, q); i >= 0 {
		s.release(q, now)
		s.seats.places -= 1 + q.Forks
		s.running = slices.Delete(s.running, i, i+1)
		s.waiting = append(s.waiting, q)
		q.yield(now)
	}
	q.restart()
}

// lent returns how many blocks other classes have reserved and not used.
func (s *Scheduler) lent(but parley.Class) (n int) {
	if s.cfg.Reserve == [parley.Classes]float64{} {
		return 0
	}
	var held [parley.Classes]int
	for _, q := range s.running {
		held[q.Class] += q.Table.Held()
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
	q.fork(child, now)
	s.joins(child)
	if s.cache.Available() > s.lent(q.Class) && s.cache.Fork(&q.Table, &child.Table, q.Prompt, now) {
		child.beginAfterPrompt()
		s.running = append(s.running, child)
		return
	}
	s.seats.places--
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
	s.seats.places -= 1 + q.Forks
	s.release(q, now)
	q.dropForks()
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
	due := q.dueToSeal()
	q.hash(due * size)
	for i := q.Table.Sealed(); i < due; i++ {
		err := s.cache.Seal(&q.Table, q.hashes[i], q.Tokens[i*size:(i+1)*size])
		if err != nil || q.Table.Sealed() != i+1 {
			break
		}
	}
}

// dueToSeal returns how many leading blocks are full.
func (q *Seq) dueToSeal() int { return max(0, min(q.Computed, len(q.Tokens)-1)) / kv.BlockTokens }

// sealAll seals the blocks of all that run. Before it names them, and before it seals them,
// it reads the memory that this needs of all, so that the processor need not wait for one
// block after the other.
func (s *Scheduler) sealAll() {
	if s.cfg.Baseline.NoPrefixCache {
		return
	}
	full := s.pass.full[:0]
	for _, q := range s.running {
		if due := q.dueToSeal(); due > q.Table.Sealed() {
			full = append(full, q)
			if n := len(q.hashes); n > 0 && n < due {
				s.pass.read += int(q.hashes[n-1][0]) + int(q.Tokens[n*kv.BlockTokens])
			}
		}
	}
	for _, q := range full {
		q.hash(q.dueToSeal() * kv.BlockTokens)
	}
	for _, q := range full {
		s.cache.Approach(&q.Table, q.hashes[q.Table.Sealed():q.dueToSeal()])
	}
	for _, q := range full {
		s.seal(q)
	}
	clear(full)
	s.pass.full = full[:0]
}
