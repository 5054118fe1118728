package sched

import (
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
)

// A Plan is what the next pass computes.
type Plan struct {
	Parts []Part
	// Expired are sequences whose deadline has passed. They are out of the
	// scheduler already, and nothing is computed for them.
	Expired []*Seq
	// Copies are blocks to be copied before the pass, in order.
	Copies []kv.Move
	// Work is what the pass is made of, for [Pace.Learn].
	Work Work
}

// A Part is the share of one sequence in a pass.
type Part struct {
	Seq *Seq
	// Tokens is how many tokens it computes.
	Tokens int
	// Outputs is how many rows of logits it needs: its last ones.
	Outputs int
	// Draft is how many of the tokens are guesses: the last ones.
	Draft int
}

// A Scheduler holds the sequences that wait and those that run.
type Scheduler struct {
	cfg        Config
	cache      *kv.Cache
	ledger     ledger
	pace       Pace
	transfers  transfers
	waiting    []*Seq
	running    []*Seq
	pass       pass
	background background
	seats      seats
	arrivals   arrivals
	stats      Preemptions
}

// A pass is what is planned at present.
type pass struct {
	turns   []*Seq // those that run as it is planned
	readers []*Seq
	full    []*Seq // those with blocks to seal
	read    int    // has no meaning: with it, reading ahead is not left out by the compiler
	writers int
	busy    bool          // others than background sequences have work
	spent   time.Duration // before it
	alone   time.Duration // that its writers take
	reading int           // tokens granted to its readers
	plan    Plan
}

// arrivals are about all sequences that ever came: how many they are, and whether one of them has a deadline.
type arrivals struct {
	n       uint64
	expires bool
}

// background is about the sequences in the background: favoured is one that was there for
// too long, nil if there is none, and moved is when the background last had a turn.
type background struct {
	favoured *Seq
	moved    time.Time
}

// seats are about who runs.
type seats struct {
	places int // sequences running, and forks to come
	// owed is since when classes have less than their share of the seats; zero if
	// they have it.
	owed  [parley.Classes]time.Time
	heads []*Seq // scratch: of the waiting sequences with each objective the first
}

// transfers are copies between tiers: how long they take, and those that can wait; and
// the room for blocks that come from other workers.
type transfers struct {
	pace    copyPace
	queue   kv.CopyQueue
	intakes []*Intake
}

// Preemptions count sequences that had to make room.
type Preemptions struct {
	// Preempted counts them, Lost the tokens they had computed. Yielded counts those
	// that gave up their seat to a higher class.
	Preempted, Lost, Yielded uint64
}

// New returns a scheduler without any sequence.
func New(cfg Config) (*Scheduler, error) {
	cfg = cfg.withDefaults()
	cache, err := kv.NewCache(cfg.Cache)
	if err != nil {
		return nil, err
	}
	for class, share := range cfg.CacheShares {
		if share > 0 {
			cache.SetClassBudget(parley.Class(class).String(), int(share*float64(cfg.Blocks)))
		}
	}
	for class, share := range cfg.TenantShares {
		cache.SetTenantShare(parley.Class(class).String(), share)
	}
	return &Scheduler{cfg: cfg, cache: cache, ledger: newLedger(cfg.Weights), pace: cfg.Pace}, nil
}

// turn reports whether the sequence may have a share of the present pass.
func (s *Scheduler) turn(q *Seq) bool {
	return !q.Paused && !(q.Background && s.pass.busy) && q.ready()
}

// joins makes the sequence count as present in the account of its tenant.
func (s *Scheduler) joins(q *Seq) {
	if !q.Background {
		s.ledger.join(q)
	}
}

// leaves ends that.
func (s *Scheduler) leaves(q *Seq) {
	if !q.Background {
		s.ledger.leave(q)
	}
}

// hasForeground reports whether a sequence that is not in the background has
// work. One that is paused has none. With static batches no sequence could take
// the place of one that gives way, so none does.
func (s *Scheduler) hasForeground() bool {
	if s.cfg.Baseline.StaticBatches {
		return false
	}
	for _, list := range [][]*Seq{s.waiting, s.running} {
		for _, q := range list {
			if !q.Background && !q.Paused {
				return true
			}
		}
	}
	return false
}

// Drop takes sequences out of a plan that was not computed yet.
func (p *Plan) Drop(gone func(*Seq) bool) {
	p.Parts = slices.DeleteFunc(p.Parts, func(part Part) bool { return gone(part.Seq) })
	p.Work = Work{}
	for _, part := range p.Parts {
		p.Work = p.Work.Add(part.Tokens, part.Seq.Computed)
	}
}
