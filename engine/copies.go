package engine

import (
	"errors"
	"time"

	"parley"
	"parley/engine/kv"
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
		began := l.cfg.Now()
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
		if l.cfg.Settle != nil && moves[0].From != moves[0].To {
			l.cfg.Settle()
		}
		l.copied(moves[:n], l.cfg.Now().Sub(began))
		moves = moves[n:]
	}
	return len(lost) == 0
}

// copied takes in how long copies of one kind took.
func (l *loop) copied(moves []kv.Move, took time.Duration) {
	from, to := moves[0].From, moves[0].To
	l.sched.Copied(from, to, len(moves), took)
	l.stats.copied(from, to, len(moves), took)
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
		return
	}
	if l.cache.worked {
		l.cache.worked = false
		l.audit()
		l.learned(false)
	}
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
