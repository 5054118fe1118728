// Package sched decides what the next forward pass computes.
//
// There is one rule and no phases: each sequence has tokens it wants computed
// and tokens it has computed, and every pass lets some sequences catch up
// under a budget. A sequence that is one token behind is writing; one that is
// far behind is reading its prompt; the scheduler does not care.
//
// # What goes first
//
// Writers go first, because a client is reading each of them. What readers
// may add to a pass is bounded by time: the pass must be expected to stay
// within the target, judged by the passes measured so far (see [Pace]), so
// that no prompt, however long, makes the writers stutter. Without writers it
// may take a few times as long, and as long as is efficient. Between readers,
// turns go to the class served least in proportion to its weight, in it to the
// tenant served least, of a tenant to the oldest request.
//
// # Who gets memory
//
// A sequence is admitted when there is a seat for it and the blocks of all its known
// tokens can be had, beside a reserve for those that run to grow into. The order is
// strict: a higher class first; in a class those that gave up a seat, then those that
// waited too long, then of the requests with one objective that of the tenant served
// least, and between objectives the one that is due first. One that does not fit yet
// holds back those behind it. When a running sequence needs a block
// and there is none, another one is preempted: of the lowest class, the newest,
// unless it has not got anywhere since it was preempted before. What a preempted
// sequence had computed may stay in the cache; the rest is computed again. A
// class may reserve a share of the pool and of the seats: others use the blocks for
// their cache alone, so that requests within the share preempt none.
//
// # Who gives up a seat
//
// A request that finds no seat, or no memory, takes those of a running sequence of a
// lower class, unless a seat is certain to be free after the next pass and that is
// soon enough for its objective (see [Seq.Objective]). That one
// waits, keeps what it computed in the cache while there is room for it, and continues
// with the same tokens. A class keeps its share of the seats by weight, a sequence
// that was let in by its age keeps its seat, and one that was preempted before must
// first have written a block, and a part of what it had to compute again.
//
// # What gives way
//
// Background sequences are outside of all this: they are admitted, and get
// turns, only in passes in which no other sequence waits or runs. So a new
// request is delayed by them for the rest of one pass at most. They keep their
// blocks until another needs them.
//
// # No starvation
//
// Every pass in which a reader is present gives readers at least one token,
// and chunkMin if that takes it at most half beyond the target, even if the
// writers alone use the target up. When a class has had less than its share of the
// seats by weight, or none, for AgeMax, a request of it that has waited as long is
// admitted before all others of any class, and runs to its end. When the
// background has had no turn for BackgroundWait, the oldest of its sequences
// stops being one: it runs to its end like any other, and the next is
// admitted BackgroundWait after it.
package sched

import (
	"cmp"
	"slices"
	"time"

	"parley"
	"parley/engine/kv"
)

// A Seq is one continuation on its way through the engine.
type Seq struct {
	// Tokens are the known tokens: the prompt and what was chosen so far. The
	// engine appends to them; they are all to be computed.
	Tokens []parley.Token
	// Computed is how many of them are in the pool.
	Computed int
	// Most is how many tokens the sequence can ever have.
	Most int
	// Forks is how many further sequences will continue this one's prompt, of
	// Prompt tokens, as Most does here.
	Forks, Prompt int
	// EveryRow asks for the logits of each prompt token, not of the last one
	// alone. Such a prompt is computed whole, whatever is cached.
	EveryRow bool
	// Whole computes the prompt from its beginning, whatever is cached.
	Whole bool
	// Class and Tenant decide whose turn it is, and whose cache is charged.
	Class  parley.Class
	Tenant string
	// Background sequences get turns only while no other has work. No account is
	// kept of them, and they make room first.
	Background bool
	// Salt keeps the sequence's blocks from being shared under another salt, but
	// for those that lie in the first PublicTokens tokens.
	Salt         parley.Salt
	PublicTokens int
	// Objective is how long after the request's arrival at the gateway the first token
	// should come; 0 means at once. Waited is how much of that had passed when it came
	// here.
	Objective, Waited time.Duration
	// Retain is how long its blocks should stay in the cache after it.
	Retain time.Duration
	// Deadline is when the sequence is worth nothing any more; zero means never.
	Deadline time.Time
	// Draft is how many tokens were guessed after the known ones, to be
	// checked in the next pass if there is room.
	Draft int
	// Coming is how many of the last tokens are not known yet; see [Seq.Expect].
	Coming int
	// Paused keeps the sequence from getting turns: its client does not read
	// fast enough.
	Paused bool
	// Table holds the sequence's blocks while it runs.
	Table kv.Table
	// Cached says what was found in the cache at the first admission.
	Cached kv.Admission
	// Waits says what the sequence waited for before it was first admitted.
	Waits [Waits]time.Duration
	// Preempted counts how often it had to make room for others, Away is how long it
	// then waited.
	Preempted int
	Away      time.Duration
	// Owner is for the caller, who gets sequences back in plans.
	Owner any

	hashes   []parley.BlockHash // of the leading full blocks
	boarding bool               // some of its computed tokens may wait for a copy
	granted  int                // tokens it may compute in the present pass
	order    uint64             // of arrival
	arrived  time.Time
	since    time.Time // when it began to wait: at its arrival, or when it was preempted
	noted    time.Time // up to when Waits are told
	cause    Wait      // from then on
	admitted bool      // at least once
	again    bool      // after a preemption
	yielded  bool      // its seat to a higher class, and waits for another
	stays    bool      // in its seat, as it waited too long for it
	mark     int       // known tokens at the last admission
	// recomputed is how many of them were not found in the cache.
	recomputed int
}

// A Wait is what a sequence waits for before its first pass.
type Wait uint8

// What sequences wait for.
const (
	// ForTurn: the pass that runs, or those that other sequences have first.
	ForTurn Wait = iota
	// ForSeat: as many sequences run as may, or as their class may have.
	ForSeat
	// ForMemory: the blocks of the prompt cannot be had.
	ForMemory

	// Waits is how many there are.
	Waits = 3
)

// behind returns how many known tokens are not computed.
func (q *Seq) behind() int { return len(q.Tokens) - q.Computed }

// hash names the full blocks among the first n tokens.
func (q *Seq) hash(n int) {
	const size = kv.BlockTokens
	for i := len(q.hashes); i < n/size; i++ {
		var parent parley.BlockHash
		if i > 0 {
			parent = q.hashes[i-1]
		}
		var salt parley.Salt
		if (i+1)*size > q.PublicTokens {
			salt = q.Salt
		}
		q.hashes = append(q.hashes, parley.HashBlock(parent, salt, q.Tokens[i*size:(i+1)*size]))
	}
}

// Prepare names the blocks of the prompt. Add does it too; who calls Prepare
// before, elsewhere, spares the scheduler the work.
func (q *Seq) Prepare() { q.hash(q.Prompt) }

// Names returns those of the blocks that were named so far: the leading full ones.
func (q *Seq) Names() []parley.BlockHash { return q.hashes }

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
	// Reserve is the share, 0 to 1, of the pool and of the seats that only a class
	// itself uses, and of what prompts may take of a pass that it gets before others;
	// the latter is lent to them while the class has no use for it. A share above 0
	// is at least one seat where there are several.
	Reserve [parley.Classes]float64
	// CacheShares is the part, 0 to 1, of the pool that a class may keep cached
	// before it is evicted ahead of others; 0 is what Cache says for all.
	CacheShares [parley.Classes]float64
	// TenantShares is the part, 0 to 1, of the pool that each tenant of a class may keep
	// cached before it is evicted ahead of others; 0 is what Cache says for all.
	TenantShares [parley.Classes]float64
	// Cache says how the pool is shared; its sizes are set from this config.
	Cache kv.Config
	// AgeMax is how long a request waits before it goes ahead of every class, if its
	// own has not its share of the seats; 0 means 30 seconds.
	AgeMax time.Duration
	// BackgroundWait is how long the background goes without a turn before one of
	// its sequences is let in; 0 means a minute, less than 0 for ever.
	BackgroundWait time.Duration
	// Pace is what an earlier process learned of this model on this machine; the
	// zero value is nothing.
	Pace Pace
	// Baseline turns mechanisms off, for measurements alone.
	Baseline Baseline
}

const (
	// chunkMin is how many prompt tokens a pass should compute at least, if any
	// are wanted: one block. For that it may go beyond the target, by
	// trickleFactor; where even that is too little, it computes one token.
	chunkMin      = kv.BlockTokens
	trickleFactor = 1.25
	// chunkBlind is how many it computes beside writers before passes were measured.
	chunkBlind = 4 * kv.BlockTokens
	// targetUse is the share of the target that a pass is planned for; the
	// rest covers what the prediction does not know.
	targetUse = 0.9
	// quietFactor is by how much a pass without writers may be longer: no stream
	// waits for it, but the next request must wait for its end. It may always be
	// quietFixed times as long as what a pass takes whatever is in it, so that at
	// most a twentieth of the time goes there.
	quietFactor   = 8
	quietFixed    = 20
	ageMaxDefault = 30 * time.Second
	// backgroundWaitDefault leaves a busy server to interactive requests, and lets a
	// thousand requests through in a day at the worst.
	backgroundWaitDefault = time.Minute
)

func (c Config) withDefaults() Config {
	for i, w := range []float64{parley.Free: 1, parley.Pro: 4, parley.Enterprise: 16} {
		c.Weights[i] = cmp.Or(c.Weights[i], w)
	}
	c.AgeMax = cmp.Or(c.AgeMax, ageMaxDefault)
	c.BackgroundWait = cmp.Or(c.BackgroundWait, backgroundWaitDefault)
	c.Cache.Blocks, c.Cache.BlockTokens = c.Blocks, kv.BlockTokens
	c.Cache.WatermarkBlocks = cmp.Or(c.Cache.WatermarkBlocks, c.Blocks/64)
	return c
}

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
	cfg     Config
	cache   *kv.Cache
	ledger  ledger
	pace    Pace
	copies  copyPace
	ferry   kv.Ferry
	waiting []*Seq
	running []*Seq
	turns   []*Seq // those that run as a pass is planned
	readers []*Seq // of the present pass
	writers int    // in the present plan
	busy    bool   // others than background sequences have work
	// favoured is a sequence that was in the background for too long, nil if there
	// is none; moved is when the background last had a turn.
	favoured *Seq
	moved    time.Time
	spent    time.Duration // before the coming pass
	alone    time.Duration // that the writers of the present plan take
	reading  int           // tokens granted to readers in it
	arrived  uint64
	places   int // sequences running, and forks to come
	// owed is since when classes have less than their share of the seats; zero if
	// they have it.
	owed  [parley.Classes]time.Time
	heads []*Seq // scratch: of the waiting sequences with each objective the first
	plan  Plan
	stats Preemptions
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

// Add puts a sequence among those that wait. It must [Config.Fit].
func (s *Scheduler) Add(q *Seq, now time.Time) {
	s.arrived++
	q.order, q.arrived, q.since, q.noted = s.arrived, now, now, now
	q.Prepare()
	s.joins(q)
	s.waiting = append(s.waiting, q)
}

// Fit reports whether the sequence could ever run: in an otherwise empty pool,
// beside what other classes reserve.
func (c *Config) Fit(q *Seq) bool {
	return blocks(q.Most) <= c.Blocks-c.reserved(q.Class) && 1+q.Forks <= c.Seats(q.Class)
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

func blocks(tokens int) int {
	return (tokens + kv.BlockTokens - 1) / kv.BlockTokens
}

// Next returns what the next pass computes. The plan is valid until the next call.
func (s *Scheduler) Next(now time.Time) *Plan {
	s.plan = Plan{Parts: s.plan.Parts[:0], Expired: s.plan.Expired[:0], Copies: s.plan.Copies[:0]}
	s.sealAll()
	s.expire(now)
	s.busy = s.hasForeground()
	s.letIn(now)
	why := s.admit(now)
	for _, q := range s.waiting {
		q.note(why, now)
	}
	s.ferry.Add(s.cache.Moves())
	tokens, outputs := s.cfg.StepTokens, s.cfg.StepOutputs
	s.planWriters(&tokens, &outputs, now)
	for i := range s.plan.Parts {
		s.guess(&s.plan.Parts[i], &tokens, &outputs, now)
	}
	s.planReaders(&tokens, &outputs)
	s.planCopies()
	return &s.plan
}

// planReaders shares what the writers leave of the pass: first what classes
// have reserved, then the rest by turns.
func (s *Scheduler) planReaders(tokens, outputs *int) {
	s.reading, s.alone = 0, s.pace.Predict(s.plan.Work)
	s.readers = slices.DeleteFunc(s.readers, func(q *Seq) bool { return !s.board(q) })
	s.ledger.sorted(s.readers)
	for class, share := range s.cfg.Reserve {
		if share > 0 {
			s.grant(tokens, share, func(q *Seq) bool { return q.Class == parley.Class(class) })
		}
	}
	s.grant(tokens, 1, func(*Seq) bool { return true })
	for _, q := range s.readers {
		if part := share(q, q.granted, *outputs); part.Tokens > 0 {
			s.plan.Parts = append(s.plan.Parts, part)
			*outputs -= part.Outputs
		}
	}
}

// grant lets readers take up to a share of the pass, in order.
func (s *Scheduler) grant(tokens *int, share float64, may func(*Seq) bool) {
	left := min(*tokens, int(share*float64(s.cfg.StepTokens)))
	for _, q := range s.readers {
		if !may(q) {
			continue
		}
		n := max(0, min(s.chunk(q, share), left))
		s.plan.Work = s.plan.Work.Add(n, q.Computed+q.granted)
		q.granted += n
		s.reading += n
		left -= n
		*tokens -= n
	}
}

// planWriters gives every writer its token, for which others may have to make
// room, and lists the readers that are left.
func (s *Scheduler) planWriters(tokens, outputs *int, now time.Time) {
	s.readers, s.turns = s.readers[:0], append(s.turns[:0], s.running...)
	for _, q := range s.turns {
		if q.runs() && s.turn(q) && q.behind() == 1 && s.board(q) && s.room(q, len(q.Tokens), now) {
			s.take(q, tokens, outputs, 1)
		}
	}
	s.plan.Parts = slices.DeleteFunc(s.plan.Parts, func(p Part) bool { return !p.Seq.runs() })
	s.writers = len(s.plan.Parts)
	for _, q := range s.running {
		if s.turn(q) && q.behind() > 1 {
			q.granted = 0
			s.readers = append(s.readers, q)
		}
	}
}

// runs reports whether the sequence has memory, and so is running.
func (q *Seq) runs() bool { return len(q.Table.Blocks) > 0 }

// guess adds a writer's guesses to its part, as far as they fit the pass.
func (s *Scheduler) guess(p *Part, tokens, outputs *int, now time.Time) {
	q := p.Seq
	known := len(q.Tokens)
	n := min(q.Draft, q.Most-known-1, *tokens, *outputs) // what comes last needs no guess
	if s.cfg.Target > 0 && n > 0 {
		n = s.pace.Fit(s.plan.Work, known, n, s.limit())
	}
	if n <= 0 || !s.cache.Grow(&q.Table, known+n, now) {
		return
	}
	p.Tokens, p.Outputs, p.Draft = p.Tokens+n, p.Outputs+n, n
	s.plan.Work = s.plan.Work.Add(n, known)
	*tokens -= n
	*outputs -= n
}

// Settle forgets what was computed for guesses that turned out wrong, after
// the chosen tokens were added to the known ones.
func (q *Seq) Settle() {
	q.Computed = min(q.Computed, len(q.Tokens)-1)
	q.Draft = 0
}

// chunk returns how many more tokens of a reader may join the pass, if readers
// may use the given share of it.
func (s *Scheduler) chunk(q *Seq, share float64) int {
	behind := q.behind() - q.granted
	if s.cfg.Target == 0 || s.cfg.Baseline.WholePrompts {
		return behind
	}
	if !s.pace.Known() && s.writers == 0 {
		return behind
	}
	if !s.pace.Known() {
		return min(behind, max(0, chunkBlind-s.plan.Work.Rows))
	}
	limit := float64(s.readLimit() - s.copies.planned - s.evictions(q, behind))
	if share < 1 {
		soFar := float64(s.pace.Predict(s.plan.Work))
		limit = soFar + share*(limit-soFar)
	}
	fits := s.pace.Fit(s.plan.Work, q.Computed+q.granted, behind, time.Duration(limit))
	if s.reading == 0 && fits < min(behind, chunkMin) && share == 1 {
		trickle := s.pace.Fit(s.plan.Work, q.Computed, min(behind, chunkMin), time.Duration(limit*trickleFactor))
		return max(fits, trickle, 1)
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
	s.plan.Work = s.plan.Work.Add(part.Tokens, q.Computed)
	*tokens -= part.Tokens
	*outputs -= part.Outputs
}

// share returns how far q gets with the given tokens and outputs of the budget.
func share(q *Seq, tokens, outputs int) Part {
	behind := q.behind()
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
		s.Remove(q, now)
	}
}

// Commit records that the plan was computed, and how long it took.
func (s *Scheduler) Commit(plan *Plan, took time.Duration) {
	s.Advance(plan)
	s.Learn(plan.Work, took)
}

// A Load says how busy the scheduler is.
type Load struct {
	Running int
	Waiting [parley.Classes]int
	// Pool says what the blocks of the device are doing, Tiers those of every
	// tier, Cache what came of the prompts so far.
	Pool  kv.Use
	Tiers [kv.Tiers]kv.Use
	Cache kv.Stats
	// Fairness is Jain's index over the present tenants of each class.
	Fairness [parley.Classes]float64
	Preemptions
}

// Load returns the present load.
func (s *Scheduler) Load() Load {
	l := Load{Running: len(s.running), Pool: s.cache.Use(kv.Device), Cache: s.cache.Stats(), Preemptions: s.stats}
	for t := range l.Tiers {
		l.Tiers[t] = s.cache.Use(kv.Tier(t))
	}
	for _, q := range s.waiting {
		l.Waiting[q.Class]++
	}
	for c := range l.Fairness {
		l.Fairness[c] = s.ledger.classes[c].tenants.Fairness()
	}
	return l
}

// Running returns how many sequences run.
func (s *Scheduler) Running() int { return len(s.running) }

// Preempted returns how often a sequence had to make room.
func (s *Scheduler) Preempted() uint64 { return s.stats.Preempted }

// Use returns what the blocks of the device are doing.
func (s *Scheduler) Use() kv.Use { return s.cache.Use(kv.Device) }

// Check reports any block that is lost or held twice.
func (s *Scheduler) Check() error { return s.cache.Check() }
