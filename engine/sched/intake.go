package sched

import (
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
)

// An Intake is room in the pool for leading blocks of a sequence that were computed on
// another worker. It holds blocks as a sequence does: those that are known already, and
// those that came, which are named at once, so that every sequence finds them. It gives
// way to all sequences: when one finds no memory, the newest intake ends, and what came
// so far is cached.
type Intake struct {
	table   kv.Table
	names   []parley.BlockHash
	tokens  []parley.Token
	class   parley.Class
	missing int // at the beginning
}

// Missing returns the names of the blocks that were not known when the intake was
// opened, in order. They are those that [Scheduler.Place] gives room to.
func (in *Intake) Missing() []parley.BlockHash { return in.names[len(in.names)-in.missing:] }

// Open reports whether the intake still has room to give.
func (in *Intake) Open() bool { return in.table.Blocks != nil }

// OpenIntake makes room for the first most blocks of q, as far as they are not known. It
// returns nil if all are known or there is no room for one.
func (s *Scheduler) OpenIntake(q *Seq, most int, now time.Time) *Intake {
	q.Prepare()
	names := q.hashes[:min(most, len(q.hashes))]
	known := s.cache.Known(names)
	if known == len(names) || s.cfg.Baseline.NoPrefixCache {
		return nil
	}
	in := &Intake{names: names, tokens: q.Tokens, class: q.Class, missing: len(names) - known}
	claim := kv.Claim{
		PromptTokens: len(names)*kv.BlockTokens + 1,
		Hashes:       names,
		Tenant:       q.Tenant,
		Class:        q.Class.String(),
		Retain:       q.Retain,
		Again:        true,
	}
	if !s.intakeFits(in, known+1) {
		return nil
	}
	if _, ok := s.cache.Admit(&in.table, &claim, known*kv.BlockTokens+1, now); !ok {
		return nil
	}
	s.transfers.intakes = append(s.transfers.intakes, in)
	return in
}

// intakeFits reports whether a number of blocks can be had beside what running sequences
// may grow into and other classes have reserved.
func (s *Scheduler) intakeFits(in *Intake, blocks int) bool {
	return s.cache.Available()-s.lent(in.class)-s.cfg.Cache.WatermarkBlocks >= blocks
}

// Place returns the slot on the device that the intake's next block is to be written to,
// after the copies that must be done first. It reports false if the intake is closed or complete; if
// the pool is full, it closes the intake and reports false. Calls before [Scheduler.Placed] return the same slot.
func (s *Scheduler) Place(in *Intake, now time.Time) (slot int32, copies []kv.Move, ok bool) {
	at := in.table.Sealed()
	if !in.Open() || at >= len(in.names) {
		return 0, nil, false
	}
	if more := at + 1 - len(in.table.Blocks); more > 0 && (!s.intakeFits(in, more) ||
		!s.cache.Grow(&in.table, (at+1)*kv.BlockTokens, now)) {
		s.CloseIntake(in, now)
		return 0, nil, false
	}
	slot = in.table.Blocks[at]
	s.transfers.queue.Add(s.cache.Moves())
	return slot, s.transfers.queue.TakeAt(nil, kv.Device, slot), true
}

// Placed names the block that was written to the slot of [Scheduler.Place].
func (s *Scheduler) Placed(in *Intake, now time.Time) {
	const size = kv.BlockTokens
	at := in.table.Sealed()
	err := s.cache.Seal(&in.table, in.names[at], in.tokens[at*size:(at+1)*size])
	if err != nil || in.table.Sealed() != at+1 {
		s.CloseIntake(in, now)
	}
}

// CloseIntake ends an intake. What came is cached.
func (s *Scheduler) CloseIntake(in *Intake, now time.Time) {
	s.endIntakes(func(other *Intake) bool { return other == in }, now)
}

// CloseIntakes ends all intakes.
func (s *Scheduler) CloseIntakes(now time.Time) {
	s.endIntakes(func(*Intake) bool { return true }, now)
}

// endIntakes ends the intakes that doomed selects.
func (s *Scheduler) endIntakes(doomed func(*Intake) bool, now time.Time) {
	s.transfers.intakes = slices.DeleteFunc(s.transfers.intakes, func(in *Intake) bool {
		if !doomed(in) {
			return false
		}
		s.cache.Release(&in.table, now)
		in.table = kv.Table{}
		return true
	})
}

// yieldIntake ends the newest intake for a sequence that needs memory. It reports false
// if there is none.
func (s *Scheduler) yieldIntake(now time.Time) bool {
	if len(s.transfers.intakes) == 0 {
		return false
	}
	s.CloseIntake(s.transfers.intakes[len(s.transfers.intakes)-1], now)
	return true
}

// Locate returns where the block of a name lies, and the copies after which it does; ok
// is false if it is not known.
func (s *Scheduler) Locate(name parley.BlockHash) (t kv.Tier, slot int32, copies []kv.Move, ok bool) {
	t, slot, ok = s.cache.Find(name)
	if !ok {
		return t, slot, nil, false
	}
	s.transfers.queue.Add(s.cache.Moves())
	return t, slot, s.transfers.queue.TakeAt(nil, t, slot), true
}
