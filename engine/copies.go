package engine

import (
	"errors"
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/engine/sched"
	"parley/engine/tier"
)

// copy makes copies in order. It reports whether all could be made: where the
// content of a block turned out to be lost, the sequences that needed it must be
// planned again.
func (l *loop) copy(moves []kv.Move) (whole bool) {
	lost := map[parley.BlockHash]bool(nil)
	for len(moves) > 0 {
		n := 1
		for n < len(moves) && moves[n].From == moves[0].From && moves[n].To == moves[0].To {
			n++
		}
		began, background := l.cfg.Now(), l.inBackground(moves[0])
		if background {
			l.cfg.Background.StartBatch()
		}
		for _, m := range moves[:n] {
			if lost[m.Hash] {
				l.sched.Lost(m, l.cfg.Now())
				continue
			}
			if err := l.cfg.Move(m); err != nil && l.copyFailed(m, err) {
				if lost == nil {
					lost = map[parley.BlockHash]bool{}
				}
				lost[m.Hash] = true
			}
		}
		if background {
			l.cfg.Background.EndBatch()
			l.cache.batches = append(l.cache.batches, batchOf(moves[:n]))
		} else {
			l.copied(moves[0].From, moves[0].To, n, l.cfg.Now().Sub(began))
		}
		moves = moves[n:]
	}
	return len(lost) == 0
}

// copied takes in how long copies of one kind took.
func (l *loop) copied(from, to kv.Tier, blocks int, took time.Duration) {
	l.sched.Copied(from, to, blocks, took)
	l.stats.copied(from, to, blocks, took)
}

func batchOf(moves []kv.Move) copyBatch {
	b := copyBatch{from: moves[0].From, to: moves[0].To, blocks: len(moves)}
	if b.to == kv.Device {
		for _, m := range moves {
			b.restored = append(b.restored, m.ToSlot)
		}
	}
	return b
}

// inBackground reports whether copies like m are made while steps are computed.
func (l *loop) inBackground(m kv.Move) bool {
	return l.cfg.Background != nil && (m.From == kv.Device && m.To == kv.Host || m.From == kv.Host && m.To == kv.Device)
}

// collectCopies takes in the copies in the background that are done.
func (l *loop) collectCopies() {
	if len(l.cache.batches) == 0 {
		return
	}
	for _, took := range l.cfg.Background.Batches() {
		b := &l.cache.batches[0]
		l.copied(b.from, b.to, b.blocks, took)
		l.cache.batches = l.cache.batches[1:]
	}
}

// settleCopies waits for the copies in the background.
func (l *loop) settleCopies() {
	if len(l.cache.batches) > 0 {
		l.cfg.Settle()
		l.collectCopies()
	}
}

// discardCopies waits for the copies in the background where nothing else can be relied on.
func (l *loop) discardCopies() {
	defer func() { _ = recover() }() // a device that failed has nothing to wait for
	l.settleCopies()
}

// holdBack takes sequences out of the plan whose blocks are being restored, so that the others do
// not wait for them. If there are no others, the device waits.
func (l *loop) holdBack(plan *sched.Plan) {
	l.collectCopies()
	restored := map[int32]bool{}
	for i := range l.cache.batches {
		for _, block := range l.cache.batches[i].restored {
			restored[block] = true
		}
	}
	if len(restored) == 0 {
		return
	}
	waits := func(q *sched.Seq) bool {
		return slices.ContainsFunc(q.Table.Blocks, func(b int32) bool { return restored[b] })
	}
	if slices.ContainsFunc(plan.Parts, func(p sched.Part) bool { return !waits(p.Seq) }) {
		plan.Drop(waits)
	}
}

// copyFailed reports whether the content of a block is lost. Otherwise only the
// copy is missing, which a later read will notice.
func (l *loop) copyFailed(m kv.Move, err error) (lost bool) {
	l.cfg.Log.Warn("block copy failed", "model", l.cfg.Model.ID, "block", m.Hash, "from", m.From, "to", m.To,
		"error", err)
	l.stats.damaged()
	if !errors.Is(err, tier.ErrDamaged) {
		return false
	}
	l.sched.Lost(m, l.cfg.Now())
	return true
}

// idle uses the time in which there is nothing to compute: for copies, then to
// check the account of all blocks, and then to sleep until something comes.
func (l *loop) idle() {
	if plan := l.sched.Idle(); len(plan.Copies) > 0 {
		l.copy(plan.Copies)
		l.settleCopies()
		return
	}
	if l.cache.worked {
		l.cache.worked = false
		l.audit()
		l.learned(false)
	}
	l.stats.load(l.sched.Load())
	<-l.inbox.wake
}

// audit repairs what is wrong with the account of blocks.
func (l *loop) audit() {
	err := l.sched.Repair()
	if err == nil {
		return
	}
	l.cfg.Log.Error("block accounting repaired; prefix cache dropped", "model", l.cfg.Model.ID, "error", err)
	l.stats.repaired()
}
