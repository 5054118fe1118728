package engine

import (
	"errors"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/engine/tier"
)

// Copies count the blocks that were copied from one tier to another.
type Copies struct {
	Blocks uint64
	Time   time.Duration
}

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
		began := l.e.cfg.Now()
		for _, m := range moves[:n] {
			if lost[m.Hash] {
				continue
			}
			if err := l.e.cfg.Move(m); err != nil && l.copyFailed(m, err) {
				if lost == nil {
					lost = map[parley.BlockHash]bool{}
				}
				lost[m.Hash] = true
			}
		}
		l.copied(moves[:n], l.e.cfg.Now().Sub(began))
		moves = moves[n:]
	}
	return len(lost) == 0
}

// copied takes in how long copies of one kind took.
func (l *loop) copied(moves []kv.Move, took time.Duration) {
	from, to := moves[0].From, moves[0].To
	l.sched.Copied(from, to, len(moves), took)
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	c := &l.e.stats.Copied[from][to]
	c.Blocks += uint64(len(moves))
	c.Time += took
}

// copyFailed reports whether the content of a block is lost. Otherwise only the
// copy is missing, which a later read will notice.
func (l *loop) copyFailed(m kv.Move, err error) (lost bool) {
	l.e.cfg.Log.Warn("block copy failed", "model", l.e.cfg.Model.ID, "block", m.Hash, "from", m.From, "to", m.To,
		"error", err)
	l.e.mu.Lock()
	l.e.stats.Damaged++
	l.e.mu.Unlock()
	if !errors.Is(err, tier.ErrDamaged) {
		return false
	}
	l.sched.Lost(m, l.e.cfg.Now())
	return true
}

// idle uses the time in which there is nothing to compute: for copies, then to
// check the account of all blocks, and then to sleep until something comes.
func (l *loop) idle() {
	if plan := l.sched.Idle(); len(plan.Copies) > 0 {
		l.copy(plan.Copies)
		return
	}
	if l.worked {
		l.worked = false
		l.audit()
		l.learned(false)
	}
	<-l.e.wake
}

// audit repairs what is wrong with the account of blocks.
func (l *loop) audit() {
	err := l.sched.Repair()
	if err == nil {
		return
	}
	l.e.cfg.Log.Error("block accounting repaired; prefix cache dropped", "model", l.e.cfg.Model.ID, "error", err)
	l.e.mu.Lock()
	l.e.stats.Repairs++
	l.e.mu.Unlock()
}
