package kvindex

import (
	"errors"
	"math/bits"
	"time"

	"parley"
)

// An Index knows which worker holds which block. See the package's doc.
type Index struct {
	cfg      Config
	table    table
	sets     sets
	workers  []*worker   // nil if unused
	expiries []time.Time // by worker: nothing of it expires before; zero: nothing at all
	present  []uint64    // a bit for each that is present
	salts    salts
	expireAt time.Time // the first of expiries
	scratch  scratch
	swept    nodeID // the latest that a sweep looked at
}

// scratch is what is known of the blocks of an event that are worked at: those of the
// latest steps, block i in place i%window.
type scratch struct {
	keys   [window]key
	names  [window]aim // where the engine's names belong
	places [window]aim // where the keys do
	blocks [window]block
	moves  int // of tables when the first of these aims was taken
	// coming is where the names of the next event's first step belong.
	coming      [step]aim
	comingMoves int
	untold      []key // blocks that are or were expected
}

// A worker is what is known of one of them.
type worker struct {
	source  Source
	stream  stream
	aliases aliases
	history history
	held    [tiers]int // blocks
	lower   bool       // it has told of blocks in tiers below the device
	counts  Counts
}

// New returns an index without workers.
func New(cfg Config) (*Index, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Index{
		cfg:     cfg,
		table:   newTable(cfg.Seed),
		sets:    newSets(cfg.Seed),
		present: make([]uint64, 1),
		salts:   newSalts(),
	}, nil
}

// BlockTokens returns the number of tokens in a block.
func (x *Index) BlockTokens() int { return x.cfg.BlockTokens }

// ErrFull is returned when there are [WorkersMax] workers.
var ErrFull = errors.New("kvindex: there are too many workers")

// Join gives a worker its number. What it holds is not known yet.
func (x *Index) Join(s Source) (Worker, error) {
	at := 0
	for at < len(x.workers) && x.workers[at] != nil {
		at++
	}
	if at == WorkersMax {
		return 0, ErrFull
	}
	if at == len(x.workers) {
		x.workers = append(x.workers, nil)
		x.expiries = append(x.expiries, time.Time{})
	}
	for at >= 64*x.sets.width {
		x.sets.widen(2 * x.sets.width)
		x.present = append(x.present, make([]uint64, x.sets.width-len(x.present))...)
	}
	x.workers[at] = &worker{
		source:  s,
		stream:  newStream(s),
		aliases: aliases{secret: x.table.secret},
		history: history{secret: x.table.secret},
	}
	x.workers[at].aliases.forget()
	x.present[at/64] |= 1 << (at % 64)
	return Worker(at), nil
}

// Leave forgets a worker and everything it holds. Its number may be given to
// another one.
func (x *Index) Leave(w Worker) {
	x.drop(w, Device, Host, Disk, expected)
	x.workers[w] = nil
	x.present[w/64] &^= 1 << (w % 64)
}

// hold notes that a worker holds blocks.
func (x *Index) hold(w Worker, keys []key, tier CacheTier) {
	if len(keys) == 0 {
		return
	}
	c := setUpdate{
		sets: &x.sets,
		w:    w,
		tier: tier,
		adds: true,
		from: unknown,
	}
	var now, next [step]aim
	x.table.aim(some(keys, 0), next[:])
	for at := 0; at < len(keys); at += step {
		now = next
		x.table.ask(some(keys, at+step), next[:])
		moves := x.table.size.moves
		for i, k := range some(keys, at) {
			if moves != x.table.size.moves {
				now[i] = x.table.place(k).aim()
			}
			b := x.table.obtain(now[i], k)
			b.set = c.of(b.set)
		}
		if x.table.fit(); moves != x.table.size.moves {
			x.table.aim(some(keys, at+step), next[:])
		}
	}
	x.workers[w].held[tier] += c.done()
}

// release notes that a worker no longer holds blocks.
func (x *Index) release(w Worker, keys []key, tier CacheTier) {
	if len(keys) == 0 {
		return
	}
	c := setUpdate{sets: &x.sets, w: w, tier: tier, from: unknown}
	var aims [step]aim
	for at := 0; at < len(keys); at += step {
		if at == 0 {
			x.table.aim(some(keys, 0), aims[:])
			x.table.askNodes(aims[:min(step, len(keys))])
		}
		next := some(keys, at+step)
		x.table.ask(next, aims[:])
		for _, k := range some(keys, at) {
			b, spot := x.table.find(k)
			if b.id == nowhere {
				continue
			}
			if b.set = c.of(b.set); b.set == none {
				spot.take()
				x.forget(b)
			}
		}
		x.table.askNodes(aims[:len(next)])
		x.table.fit()
	}
	x.workers[w].held[tier] -= c.done()
}

// forget frees the node of a block that no worker holds and whose entry is gone.
func (x *Index) forget(b block) {
	x.salts.done(b.salt)
	x.table.remove(b)
}

// drop forgets all blocks of some tiers of a worker. Those that no worker
// holds any more are swept up later, so that it takes microseconds.
func (x *Index) drop(w Worker, gone ...CacheTier) {
	worker := x.workers[w]
	for _, tier := range gone {
		if worker.held[tier] > 0 {
			x.sets.strike(w, tier)
			worker.held[tier] = 0
		}
		if tier == expected {
			worker.history.clear()
		} else {
			worker.aliases.forget()
		}
	}
}

// sweepNodes are looked at in one go. To forget a block takes as long as a look at
// many nodes: what a worker leaves behind lies together, and must not be forgotten
// all at once.
const (
	sweepNodes = 1024
	forgetCost = 16
)

// sweep continues to look for abandoned blocks, and forgets them.
func (x *Index) sweep() {
	for left := sweepNodes; left > 0 && x.sets.abandoned > 0; left-- {
		if x.swept++; x.swept >= x.table.used {
			x.swept = 1
		}
		if b := x.table.block(x.swept); b.set != none && x.sets.about[b.set].size == 0 {
			x.sets.move(b.set, none, 1)
			spot := x.table.spotOf(b)
			spot.take()
			x.forget(b)
			left -= forgetCost
		}
	}
	x.table.fit()
}

// A Match says how many of a prompt's leading blocks a worker holds. Of them,
// Host and Disk must be fetched from a slower tier first, and Expected are not
// confirmed by events; the others are on the device.
type Match struct {
	Blocks, Host, Disk, Expected int32
}

// Matches is the answer of a lookup. It may be used again for the next one,
// which then allocates nothing.
type Matches struct {
	of     []Match
	active []uint64
	walk   walk
}

// Of returns what a worker holds of the prompt.
func (m *Matches) Of(w Worker) Match {
	if int(w) >= len(m.of) {
		return Match{}
	}
	return m.of[w]
}

// Lookup counts, for every worker, how many of a prompt's leading blocks it
// holds without a hole.
func (x *Index) Lookup(keys []parley.BlockKey, m *Matches) {
	if len(m.of) != len(x.workers) || len(m.active) != len(x.present) {
		m.of, m.active = make([]Match, len(x.workers)), make([]uint64, len(x.present))
	}
	clear(m.of)
	copy(m.active, x.present)
	m.walk = walk{table: &x.table}
	run := none // the set of the blocks since begin
	begin := 0
	for at := range keys {
		set := m.walk.next(keys, at)
		if set == run && run != none {
			continue
		}
		m.count(&x.sets, run, at-begin)
		run, begin = set, at
		if !m.keep(&x.sets, run, begin) {
			return
		}
	}
	m.count(&x.sets, run, len(keys)-begin)
	m.leave(m.active, len(keys))
}

// keep takes the workers that do not hold a block with this set out of the
// race, and reports whether any are left.
func (m *Matches) keep(s *sets, id setID, at int) bool {
	device, host, disk, expect := s.row(id, Device), s.row(id, Host), s.row(id, Disk), s.row(id, expected)
	left := uint64(0)
	for i, word := range m.active {
		still := word & (device[i] | host[i] | disk[i] | expect[i])
		m.leaveWord(word&^still, i, at)
		m.active[i] = still
		left |= still
	}
	return left != 0
}

func (m *Matches) leave(words []uint64, at int) {
	for i, word := range words {
		m.leaveWord(word, i, at)
	}
}

func (m *Matches) leaveWord(word uint64, i, at int) {
	for ; word != 0; word &= word - 1 {
		m.of[64*i+bits.TrailingZeros64(word)].Blocks = int32(at)
	}
}

// count adds a run of blocks with one set to the tiers that are not the device.
func (m *Matches) count(s *sets, id setID, blocks int) {
	if id == none {
		return
	}
	device, host, disk, expect := s.row(id, Device), s.row(id, Host), s.row(id, Disk), s.row(id, expected)
	for i, word := range m.active {
		word &^= device[i]
		for rest := word; rest != 0; rest &= rest - 1 {
			bit := rest & -rest
			match := &m.of[64*i+bits.TrailingZeros64(rest)]
			switch {
			case host[i]&bit != 0:
				match.Host += int32(blocks)
			case disk[i]&bit != 0:
				match.Disk += int32(blocks)
			case expect[i]&bit != 0:
				match.Expected += int32(blocks)
			}
		}
	}
}
