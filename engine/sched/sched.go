// Package sched decides what the next forward pass computes.
//
// There is one rule and no phases: each sequence has tokens it wants computed
// and tokens it has computed, and every pass lets some sequences catch up
// under a budget. A sequence that is one token behind is writing; one that is
// far behind is reading its prompt; the scheduler does not care. Sequences
// that are one behind go first, because somebody is watching them; what is
// left of the budget goes to the others in the order they came.
//
// A sequence is admitted when the pool has the blocks for all the tokens it
// may ever have, so that an admitted sequence always runs to its end.
package sched

import (
	"slices"

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
	// Blocks hold the sequence's tokens, in order. Filled at admission.
	Blocks []int32

	spare []int32 // blocks of the forks to come
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
}

// A Part is the share of one sequence in a pass.
type Part struct {
	Seq *Seq
	// Tokens is how many tokens it computes.
	Tokens int
	// Outputs is how many rows of logits it needs: its last ones.
	Outputs int
}

// A Scheduler holds the sequences that wait and those that run.
type Scheduler struct {
	cfg     Config
	pool    *kv.Pool
	waiting []*Seq
	running []*Seq
	places  int // sequences running, and forks to come
	plan    []Part
}

// New returns a scheduler without any sequence.
func New(cfg Config) *Scheduler {
	return &Scheduler{cfg: cfg, pool: kv.New(cfg.Blocks)}
}

// Add puts a sequence at the end of those that wait. It must [Config.Fit].
func (s *Scheduler) Add(q *Seq) { s.waiting = append(s.waiting, q) }

// Fit reports whether the sequence could ever run: with its forks, in an
// otherwise empty pool.
func (c *Config) Fit(q *Seq) bool { return blocksFor(q) <= c.Blocks && 1+q.Forks <= c.Seqs }

// blocksFor returns how many blocks a sequence and its forks need. Forks share
// the prompt's full blocks.
func blocksFor(q *Seq) int {
	own := blocks(q.Most)
	return own + q.Forks*(own-q.Prompt/compute.BlockTokens)
}

func blocks(tokens int) int {
	return (tokens + compute.BlockTokens - 1) / compute.BlockTokens
}

// Next returns what the next pass computes. It admits waiting sequences in
// the order they came; one that does not fit yet holds back those behind it.
// The plan is valid until the next call.
func (s *Scheduler) Next() []Part {
	s.admit()
	s.plan = s.plan[:0]
	tokens, outputs := s.cfg.StepTokens, s.cfg.StepOutputs
	for _, writing := range []bool{true, false} {
		for _, q := range s.running {
			if behind := q.Wanted - q.Computed; behind == 0 || (behind == 1) != writing {
				continue
			}
			part := share(q, tokens, outputs)
			if part.Tokens > 0 {
				s.plan = append(s.plan, part)
				tokens -= part.Tokens
				outputs -= part.Outputs
			}
		}
	}
	return s.plan
}

// share returns how far a sequence gets with so much of the budget.
func share(q *Seq, tokens, outputs int) Part {
	behind := q.Wanted - q.Computed
	n := min(behind, tokens)
	if q.EveryRow && q.Computed < q.Prompt {
		n = min(n, outputs)
		return Part{q, n, n}
	}
	if n < behind {
		return Part{q, n, 0}
	}
	if outputs == 0 {
		return Part{q, n - 1, 0}
	}
	return Part{q, n, 1}
}

func (s *Scheduler) admit() {
	for len(s.waiting) > 0 {
		q := s.waiting[0]
		if s.places+1+q.Forks > s.cfg.Seqs || blocksFor(q) > s.pool.Free() {
			return
		}
		q.Blocks, _ = s.pool.Take(q.Blocks[:0], blocks(q.Most))
		q.spare, _ = s.pool.Take(q.spare[:0], blocksFor(q)-blocks(q.Most))
		s.places += 1 + q.Forks
		s.running = append(s.running, q)
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
}

// Commit records that the plan was computed.
func (s *Scheduler) Commit(plan []Part) {
	for _, p := range plan {
		p.Seq.Computed += p.Tokens
	}
}

// Fork makes child a running continuation of q's prompt, which has been
// computed and nothing after it. The prompt's full blocks are shared; if its
// last block is not full, Fork returns the child's own block for it, into
// which src must be copied.
func (s *Scheduler) Fork(q, child *Seq) (dst, src int32, partial bool) {
	full := q.Prompt / compute.BlockTokens
	child.Computed, child.Wanted, child.Prompt, child.Most = q.Prompt, q.Prompt, q.Prompt, q.Most
	child.Blocks = append(child.Blocks[:0], q.Blocks[:full]...)
	s.pool.Share(child.Blocks)
	own := len(q.Blocks) - full
	child.Blocks = append(child.Blocks, q.spare[len(q.spare)-own:]...)
	q.spare = q.spare[:len(q.spare)-own]
	q.Forks--
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
		return
	}
	i := slices.Index(s.running, q)
	if i < 0 {
		return
	}
	s.running = slices.Delete(s.running, i, i+1)
	s.places -= 1 + q.Forks
	s.pool.Release(q.Blocks)
	s.pool.Release(q.spare)
	q.Blocks, q.spare, q.Forks = q.Blocks[:0], q.spare[:0], 0
}

// A Load says how busy the scheduler is.
type Load struct {
	Running, Waiting        int
	BlocksUsed, BlocksTotal int
}

// Load returns the present load.
func (s *Scheduler) Load() Load {
	return Load{len(s.running), len(s.waiting), s.pool.Total() - s.pool.Free(), s.pool.Total()}
}

// Check reports any block that is lost or held twice.
func (s *Scheduler) Check() error {
	var tables [][]int32
	for _, q := range s.running {
		tables = append(tables, q.Blocks, q.spare)
	}
	return s.pool.Check(tables)
}
