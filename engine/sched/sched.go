// Package sched decides what the next forward pass computes.
//
// There is one rule and no phases: each sequence has tokens it wants computed
// and tokens it has computed, and every pass lets some sequences catch up
// under a budget. A sequence that is one token behind is writing; one that is
// far behind is reading its prompt; the scheduler does not care.
//
// # Whose turn it is
//
// Writers go first, because somebody is watching each of them. What readers
// may add to a pass is bounded by time: the pass must be expected to stay
// within the target, judged by the passes measured so far (see [Pace]), so
// that no prompt, however long, makes the writers stutter. Without writers it
// may take a few times as long. Between readers,
// turns go to the class served least in proportion to its weight, in it to the
// tenant served least, of a tenant to the oldest request.
//
// # Who gets memory
//
// A sequence is admitted when the pool has the blocks for all the tokens it
// may ever have, so that an admitted sequence always runs to its end. The
// order is strict: a higher class first, in a class the tenant served least;
// one that does not fit yet holds back those behind it. A class may reserve a
// share of the pool, which others do not use.
//
// # Nobody starves
//
// Every pass in which a reader is present gives readers at least chunkMin
// tokens, even if the writers alone use up the target. A request that has
// waited for AgeMax is admitted before all younger ones of any class.
package sched

import (
	"cmp"
	"slices"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
)

// A Seq is one continuation on its way through the engine.
type Seq struct {
	// Wanted is how many tokens are known: the prompt and what was chosen so far.
	Wanted int
	// Computed is how many of them are in the pool.
	Computed int
	// Most is how many tokens the sequence can ever have.
	Most int
	// Forks is how many further sequences will continue this one's prompt, of
	// Prompt tokens, as Most does here.
	Forks, Prompt int
	// EveryRow asks for the logits of each token, not of the last one alone.
	EveryRow bool
	// Class and Tenant decide whose turn it is.
	Class  parley.Class
	Tenant string
	// Deadline is when the sequence is worth nothing any more; zero means never.
	Deadline time.Time
	// Draft is how many tokens were guessed after the Wanted ones, to be
	// checked in the next pass if there is room.
	Draft int
	// Paused keeps the sequence from getting turns: nobody reads its answer
	// fast enough.
	Paused bool
	// Blocks hold the sequence's tokens, in order. Filled at admission.
	Blocks []int32

	spare   []int32 // blocks of the forks to come
	order   uint64  // of arrival
	arrived time.Time
}

// Config bounds the scheduler.
type Config struct {
	// Blocks is the size of the pool.
	Blocks int
	// StepTokens is the most tokens in one pass. At least 1.
	StepTokens int
	// StepOutputs is the most rows of logits in one pass. At least 1.
	StepOutputs int
	// Seqs is the most sequences running at once. At least 1, and at most
	// StepTokens and StepOutputs, so that all of them can write in one pass.
	Seqs int
	// Target is how long a pass with writers in it should take; 0 means any time.
	Target time.Duration
	// Weights share turns between classes; a zero means the class's default:
	// 1 for free, 4 for pro, 16 for enterprise.
	Weights [parley.Classes]float64
	// Reserve is the share of the pool, 0 to 1, that only a class itself uses.
	Reserve [parley.Classes]float64
	// AgeMax is how long a request waits before it goes ahead of every class;
	// 0 means 30 seconds.
	AgeMax time.Duration
}

const (
	// chunkMin is how many prompt tokens a pass computes at least, if any are
	// wanted: one block.
	chunkMin = compute.BlockTokens
	// chunkBlind is how many it computes before passes were measured.
	chunkBlind = 4 * compute.BlockTokens
	// targetUse is the share of the target that a pass is planned for; the
	// rest covers what the prediction does not know.
	targetUse = 0.9
	// quietFactor is by how much a pass without writers may be longer: nobody
	// watches, but whoever comes next must wait for its end.
	quietFactor   = 4
	ageMaxDefault = 30 * time.Second
)

func (c Config) withDefaults() Config {
	for i, w := range []float64{parley.Free: 1, parley.Pro: 4, parley.Enterprise: 16} {
		c.Weights[i] = cmp.Or(c.Weights[i], w)
	}
	c.AgeMax = cmp.Or(c.AgeMax, ageMaxDefault)
	return c
}

// A Plan is what the next pass computes.
type Plan struct {
	Parts []Part
	// Expired are sequences whose deadline has passed. They are out of the
	// scheduler already, and nothing is computed for them.
	Expired []*Seq
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
	cfg     Config
	pool    *kv.Pool
	ledger  ledger
	pace    Pace
	waiting []*Seq
	running []*Seq
	readers []*Seq // of the present pass
	writers int    // in the present plan
	arrived uint64
	places  int // sequences running, and forks to come
	held    [parley.Classes]int
	plan    Plan
}

// New returns a scheduler without any sequence.
func New(cfg Config) *Scheduler {
	cfg = cfg.withDefaults()
	return &Scheduler{cfg: cfg, pool: kv.New(cfg.Blocks), ledger: newLedger(cfg.Weights)}
}

// Add puts a sequence among those that wait. It must [Config.Fit].
func (s *Scheduler) Add(q *Seq, now time.Time) {
	s.arrived++
	q.order, q.arrived = s.arrived, now
	s.ledger.join(q.Class, q.Tenant)
	s.waiting = append(s.waiting, q)
}

// Fit reports whether the sequence could ever run: with its forks, in an
// otherwise empty pool, beside what other classes reserve.
func (c *Config) Fit(q *Seq) bool {
	return blocksFor(q) <= c.Blocks-c.reserved(q.Class) && 1+q.Forks <= c.Seqs
}

// reserved returns how many blocks classes other than this one reserve.
func (c *Config) reserved(but parley.Class) (n int) {
	for i, share := range c.Reserve {
		if parley.Class(i) != but {
			n += int(share * float64(c.Blocks))
		}
	}
	return n
}

// blocksFor returns how many blocks a sequence and its forks need. Forks share
// the prompt's full blocks.
func blocksFor(q *Seq) int {
	own := blocks(q.Most)
	return own + q.Forks*(own-q.Prompt/compute.BlockTokens)
}

func blocks(tokens int) int {
	return (tokens + compute.BlockTokens - 1) / compute.BlockTokens
}

// Next returns what the next pass computes. The plan is valid until the next call.
func (s *Scheduler) Next(now time.Time) *Plan {
	s.plan = Plan{Parts: s.plan.Parts[:0], Expired: s.plan.Expired[:0]}
	s.expire(now)
	s.admit(now)
	tokens, outputs := s.cfg.StepTokens, s.cfg.StepOutputs
	s.readers = s.readers[:0]
	for _, q := range s.running {
		if q.Paused {
			continue
		}
		if q.Wanted-q.Computed > 1 {
			s.readers = append(s.readers, q)
		} else if q.Wanted > q.Computed {
			s.take(q, &tokens, &outputs, 1)
		}
	}
	s.writers = len(s.plan.Parts)
	for i := range s.plan.Parts {
		s.guess(&s.plan.Parts[i], &tokens, &outputs)
	}
	s.ledger.sorted(s.readers)
	for _, q := range s.readers {
		s.take(q, &tokens, &outputs, s.chunk(q))
	}
	return &s.plan
}

// guess adds a writer's guesses to its part, as far as they fit the pass.
func (s *Scheduler) guess(p *Part, tokens, outputs *int) {
	q := p.Seq
	n := min(q.Draft, q.Most-q.Wanted, *tokens, *outputs)
	if s.cfg.Target > 0 && n > 0 {
		n = s.pace.Fit(s.plan.Work, q.Wanted, n, time.Duration(targetUse*float64(s.cfg.Target)))
	}
	if n <= 0 {
		return
	}
	p.Tokens, p.Outputs, p.Draft = p.Tokens+n, p.Outputs+n, n
	s.plan.Work = s.plan.Work.add(n, q.Wanted)
	*tokens -= n
	*outputs -= n
}

// RowPrice returns what one row more in a pass costs, in tokens: by how much
// it lengthens a pass like the last one, as a share, times the tokens that
// such a pass brings. It is 1 while nothing is known.
func (s *Scheduler) RowPrice() float64 {
	work := s.plan.Work
	if !s.pace.Known() || work.Rows == 0 || s.writers == 0 {
		return 1
	}
	pass := s.pace.Predict(work)
	longer := s.pace.Predict(work.add(1, work.Lookback/work.Rows)) - pass
	return float64(longer) / float64(max(pass, 1)) * float64(s.writers)
}

// Settle forgets what was computed for guesses that turned out wrong, after
// the chosen tokens were added to the Wanted ones.
func (q *Seq) Settle() {
	q.Computed = min(q.Computed, q.Wanted-1)
	q.Draft = 0
}

// chunk returns how many tokens of a reader may join the pass.
func (s *Scheduler) chunk(q *Seq) int {
	behind := q.Wanted - q.Computed
	if s.cfg.Target == 0 {
		return behind
	}
	if !s.pace.Known() {
		return min(behind, max(0, chunkBlind-s.plan.Work.Rows))
	}
	limit := targetUse * float64(s.cfg.Target)
	if s.writers == 0 {
		limit *= quietFactor
	}
	fits := s.pace.Fit(s.plan.Work, q.Computed, behind, time.Duration(limit))
	if first := len(s.plan.Parts) == s.writers; first {
		return max(fits, min(behind, chunkMin))
	}
	return fits
}

// take puts up to n tokens of a sequence into the plan.
func (s *Scheduler) take(q *Seq, tokens, outputs *int, n int) {
	part := share(q, min(*tokens, n), *outputs)
	if part.Tokens == 0 {
		return
	}
	s.plan.Parts = append(s.plan.Parts, part)
	s.plan.Work = s.plan.Work.add(part.Tokens, q.Computed)
	*tokens -= part.Tokens
	*outputs -= part.Outputs
}

// share returns how far a sequence gets with so much of the budget.
func share(q *Seq, tokens, outputs int) Part {
	behind := q.Wanted - q.Computed
	n := min(behind, tokens)
	if q.EveryRow && q.Computed < q.Prompt {
		n = min(n, outputs)
		return Part{Seq: q, Tokens: n, Outputs: n}
	}
	if n < behind {
		return Part{Seq: q, Tokens: n}
	}
	if outputs == 0 {
		return Part{Seq: q, Tokens: n - 1}
	}
	return Part{Seq: q, Tokens: n, Outputs: 1}
}

// expire takes out the sequences whose deadline has passed.
func (s *Scheduler) expire(now time.Time) {
	for _, list := range [][]*Seq{s.waiting, s.running} {
		for _, q := range list {
			if !q.Deadline.IsZero() && now.After(q.Deadline) {
				s.plan.Expired = append(s.plan.Expired, q)
			}
		}
	}
	for _, q := range s.plan.Expired {
		s.Remove(q)
	}
}

// admit lets waiting sequences run, in strict order, while there is room.
func (s *Scheduler) admit(now time.Time) {
	for len(s.waiting) > 0 {
		i := s.first(now)
		q := s.waiting[i]
		if s.places+1+q.Forks > s.cfg.Seqs || blocksFor(q) > s.pool.Free()-s.lent(q.Class) {
			return
		}
		q.Blocks, _ = s.pool.Take(q.Blocks[:0], blocks(q.Most))
		q.spare, _ = s.pool.Take(q.spare[:0], blocksFor(q)-blocks(q.Most))
		s.places += 1 + q.Forks
		s.held[q.Class] += blocksFor(q)
		s.running = append(s.running, q)
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
}

// first returns which of the waiting sequences is admitted next: one that has
// waited too long, oldest first; else the highest class, in it by turns.
func (s *Scheduler) first(now time.Time) int {
	best := 0
	for i := 1; i < len(s.waiting); i++ {
		if s.before(s.waiting[i], s.waiting[best], now) {
			best = i
		}
	}
	return best
}

func (s *Scheduler) before(a, b *Seq, now time.Time) bool {
	oldA, oldB := now.Sub(a.arrived) >= s.cfg.AgeMax, now.Sub(b.arrived) >= s.cfg.AgeMax
	switch {
	case oldA != oldB:
		return oldA
	case oldA:
		return a.order < b.order
	case a.Class != b.Class:
		return a.Class > b.Class
	}
	return s.ledger.compare(a, b) < 0
}

// lent returns how many free blocks other classes have reserved and not used.
func (s *Scheduler) lent(but parley.Class) (n int) {
	for i, share := range s.cfg.Reserve {
		if parley.Class(i) != but {
			n += max(0, int(share*float64(s.cfg.Blocks))-s.held[i])
		}
	}
	return n
}

// Commit records that the plan was computed, and how long it took.
func (s *Scheduler) Commit(plan *Plan, took time.Duration) {
	for _, p := range plan.Parts {
		p.Seq.Computed += p.Tokens
		s.ledger.charge(p.Seq.Class, p.Seq.Tenant, p.Tokens)
	}
	s.pace.Learn(plan.Work, took)
}

// Fork makes child a running continuation of q's prompt, which has been
// computed and nothing after it. The prompt's full blocks are shared; if its
// last block is not full, Fork returns the child's own block for it, into
// which src must be copied.
func (s *Scheduler) Fork(q, child *Seq) (dst, src int32, partial bool) {
	full := q.Prompt / compute.BlockTokens
	child.Computed, child.Wanted, child.Prompt, child.Most = q.Prompt, q.Prompt, q.Prompt, q.Most
	child.Class, child.Tenant, child.Deadline = q.Class, q.Tenant, q.Deadline
	child.order, child.arrived = q.order, q.arrived
	child.Blocks = append(child.Blocks[:0], q.Blocks[:full]...)
	s.pool.Share(child.Blocks)
	own := len(q.Blocks) - full
	child.Blocks = append(child.Blocks, q.spare[len(q.spare)-own:]...)
	q.spare = q.spare[:len(q.spare)-own]
	q.Forks--
	s.ledger.join(child.Class, child.Tenant)
	s.running = append(s.running, child)
	if q.Prompt%compute.BlockTokens == 0 {
		return 0, 0, false
	}
	return child.Blocks[full], q.Blocks[full], true
}

// Remove takes a sequence out, wherever it stands, and frees what it held.
func (s *Scheduler) Remove(q *Seq) {
	if i := slices.Index(s.waiting, q); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.ledger.leave(q.Class, q.Tenant)
		return
	}
	i := slices.Index(s.running, q)
	if i < 0 {
		return
	}
	s.running = slices.Delete(s.running, i, i+1)
	s.ledger.leave(q.Class, q.Tenant)
	s.places -= 1 + q.Forks
	before := s.pool.Free()
	s.pool.Release(q.Blocks)
	s.pool.Release(q.spare)
	s.held[q.Class] -= s.pool.Free() - before
	q.Blocks, q.spare, q.Forks = q.Blocks[:0], q.spare[:0], 0
}

// A Load says how busy the scheduler is.
type Load struct {
	Running                 int
	Waiting                 [parley.Classes]int
	BlocksUsed, BlocksTotal int
	// Fairness is Jain's index over the present tenants of each class.
	Fairness [parley.Classes]float64
}

// Load returns the present load.
func (s *Scheduler) Load() Load {
	l := Load{Running: len(s.running), BlocksUsed: s.pool.Total() - s.pool.Free(), BlocksTotal: s.pool.Total()}
	for _, q := range s.waiting {
		l.Waiting[q.Class]++
	}
	for c := range l.Fairness {
		l.Fairness[c] = s.ledger.jain(parley.Class(c))
	}
	return l
}

// Check reports any block that is lost or held twice.
func (s *Scheduler) Check() error {
	var tables [][]int32
	for _, q := range s.running {
		tables = append(tables, q.Blocks, q.spare)
	}
	return s.pool.Check(tables)
}
