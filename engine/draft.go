package engine

import (
	"slices"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/engine/spec"
)

// A Draft is a smaller model with the same vocabulary, which drafts the tokens
// that the engine's own model will probably choose.
//
// Its key/value pool has as many blocks as the engine's and is addressed through
// the same block tables: a block has the same number in both pools, so blocks are
// accounted for once. The contents of a draft block may be missing or stale,
// because blocks are shared, copied and reassigned without regard to the draft
// model. For each block the drafter remembers which tokens it computed there, and
// recomputes what does not match. Answers never depend on the draft pool.
type Draft struct {
	// Forward computes a step of the draft network.
	Forward func(step *compute.Step, logits []float32)
}

// A drafter runs the draft network. It belongs to the loop.
type drafter struct {
	forward func(step *compute.Step, logits []float32)
	now     func() time.Time
	pages   []page    // by block
	logits  []float32 // [Seqs][vocab]
	vocab   int
	rows    int // in one pass at most
	step    compute.Step
	scratch sample.Scratch
	turns   []*draftSeq

	passes int
	pace   sched.Pace
	luck   spec.Luck // of all sequences
	faults int
	rest   int // passes to go without, after a fault
}

// A page says what the draft network has in one block of its pool: the keys of
// these tokens, computed after all the tokens that before stands for.
type page struct {
	before, after uint64 // after is set when the page is full
	tokens        [compute.BlockTokens]parley.Token
	filled        int
}

// A draftSeq is one sequence's part in the draft passes before a pass.
type draftSeq struct {
	choice *choice
	from   int // the first token to read
	read   int // how many
	depth  int // how many guesses are wanted

	ahead *grammar.Matcher // where the guesses stand in the choice's grammar
}

// scores leaves of a row those that the choice's grammar allows after its guesses.
func (t *draftSeq) scores(row []float32) []float32 {
	c := t.choice
	if c.matcher == nil {
		return row
	}
	if len(c.guess) == 0 {
		t.ahead = c.matcher.Fork()
	}
	t.ahead.Mask().Apply(row, row)
	return row
}

// accept advances the grammar by a guess. The one with which it ends is not
// worth a row: nothing comes after it.
func (t *draftSeq) accept(tok parley.Token) {
	if c := t.choice; c.matcher != nil && (!t.ahead.Accept(tok) || t.ahead.Final()) {
		t.depth = len(c.guess) - 1
		c.guess = c.guess[:t.depth]
	}
}

// draftCold is how many draft passes tell nothing of the time they take: memory
// is touched for the first time.
const draftCold = 2

// draftMemory is how many guesses of all sequences together are remembered.
const draftMemory = 400

// draftRestMost bounds how many passes go by without drafts after faults.
const draftRestMost = 1 << 12

func newDrafter(cfg *Config) *drafter {
	if cfg.Draft == nil {
		return nil
	}
	return &drafter{
		forward: cfg.Draft.Forward,
		now:     cfg.Now,
		vocab:   cfg.Vocab,
		rows:    cfg.Sched.StepTokens,
		luck:    spec.Luck{Memory: draftMemory},
		pages:   make([]page, cfg.Sched.Blocks),
		logits:  make([]float32, cfg.Sched.Seqs*cfg.Vocab),
	}
}

// held returns how many leading tokens of a sequence are in the draft pool.
func (d *drafter) held(q *sched.Seq) int {
	const size = compute.BlockTokens
	var before uint64
	for i, block := range q.Table.Blocks {
		p, known := &d.pages[block], q.Tokens[min(i*size, len(q.Tokens)):]
		same := 0
		if p.before == before {
			same = p.common(known)
		}
		if same < size {
			return i*size + same
		}
		before = p.after
	}
	return len(q.Table.Blocks) * size
}

// common returns how many tokens of the page are those.
func (p *page) common(tokens []parley.Token) (n int) {
	for n < min(p.filled, len(tokens)) && p.tokens[n] == tokens[n] {
		n++
	}
	return n
}

// write records that the token's keys are put into the pool at that position.
// All positions before it are there.
func (d *drafter) write(blocks []int32, pos int, t parley.Token) {
	const size = compute.BlockTokens
	p, at := &d.pages[blocks[pos/size]], pos%size
	if at == 0 {
		p.before = 0
		if pos > 0 {
			p.before = d.pages[blocks[pos/size-1]].after
		}
	}
	p.tokens[at], p.filled = t, at+1
	if p.filled == size {
		p.after = fingerprint(p.before, p.tokens[:])
	}
}

// fingerprint stands for the tokens after all those that before stands for.
// Should two texts ever have the same one, a few guesses are worse.
func fingerprint(before uint64, tokens []parley.Token) uint64 {
	const factor = 0x9e3779b97f4a7c15
	h := before
	for _, t := range tokens {
		h = (h ^ h>>29 ^ uint64(t) + 1) * factor
	}
	return h
}

// price returns what a draft pass for all who write is expected to take: what
// it takes anyway, and each row.
func (d *drafter) price(o *sched.Outlook) (pass, row time.Duration) {
	if !d.pace.Known() {
		return o.Pass / draftHope, o.Row / draftHope
	}
	all, row := d.pace.Price(o.Work)
	return max(0, all-time.Duration(o.Work.Rows)*row), row
}

// draftHope is how many times faster than the engine's own the draft network
// is taken to be before it was measured.
const draftHope = 8

// draft guesses for the sequences of the plan that want it, and takes what
// could not be guessed out of the plan. A fault costs the guesses alone.
func (l *loop) draft(plan *sched.Plan) {
	d := l.drafter
	if d == nil || !l.takeTurns(plan) {
		return
	}
	began := l.e.cfg.Now()
	err := d.guessAll(l.e.cfg.Ends)
	if err != nil {
		l.e.cfg.Log.Error("draft failed", "model", l.e.cfg.Model.ID, "error", err, "rest", d.rest)
	}
	for i := range plan.Parts {
		p := &plan.Parts[i]
		if c := l.owner[p.Seq]; c != nil && c.by == spec.ByModel {
			plan.Trim(p, len(c.guess))
		}
	}
	l.countDraft(l.e.cfg.Now().Sub(began), err)
}

func (l *loop) countDraft(took time.Duration, err error) {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.e.stats.DraftTime += took
	if err != nil {
		l.e.stats.DraftFailures++
	}
}

// takeTurns lists the sequences of the plan for which the draft network reads
// or guesses, and reports whether there are any.
func (l *loop) takeTurns(plan *sched.Plan) bool {
	d := l.drafter
	d.turns = d.turns[:0]
	for _, p := range plan.Parts {
		c := l.owner[p.Seq]
		if c != nil && c.by == spec.ByModel && c.turn.read > 0 {
			c.turn.choice, c.turn.depth = c, p.Draft
			d.turns = append(d.turns, &c.turn)
		}
	}
	return len(d.turns) > 0
}

// guessAll runs the draft passes. On an error there are no guesses, and what
// the pool holds is forgotten.
func (d *drafter) guessAll(ends []parley.Token) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicError(p)
		}
		if err != nil {
			d.fault()
		}
	}()
	for d.assemble(); len(d.step.Tokens) > 0; d.assembleNext(ends) {
		if err := d.step.Validate(len(d.pages)); err != nil {
			return err
		}
		began := d.now()
		d.forward(&d.step, d.logits)
		d.choose()
		if d.passes++; d.passes > draftCold {
			d.pace.Learn(sched.WorkOf(&d.step), d.now().Sub(began))
		}
	}
	d.faults = 0
	return nil
}

// fault takes all guesses back and rests, the longer the more often it happens.
func (d *drafter) fault() {
	clear(d.pages)
	for _, t := range d.turns {
		t.choice.guess = t.choice.guess[:0]
	}
	d.rest = min(1<<d.faults, draftRestMost)
	d.faults++
}

// assemble makes the first draft pass: every sequence reads what it is behind
// with. Blocks that several share are read once.
func (d *drafter) assemble() {
	d.begin()
	left := d.rows
	for _, t := range d.turns {
		q := &t.choice.seq
		t.from = min(d.held(q), len(q.Tokens)-1)
		t.read = min(t.read, left, len(q.Tokens)-t.from)
		if t.from+t.read < len(q.Tokens) {
			t.depth = 0
		}
		left -= t.read
		d.add(t, q.Tokens[t.from:t.from+t.read])
	}
}

// assembleNext assembles the next draft pass, of the sequences that want another token.
func (d *drafter) assembleNext(ends []parley.Token) {
	d.begin()
	for _, t := range d.turns {
		c := t.choice
		if len(c.guess) == 0 || len(c.guess) >= t.depth {
			continue
		}
		last := c.guess[len(c.guess)-1]
		if !c.job.req.Stop.IgnoreEnd && slices.Contains(ends, last) {
			continue
		}
		t.from, t.read = t.from+t.read, 1
		d.add(t, []parley.Token{last})
	}
}

func (d *drafter) begin() {
	d.step.Tokens, d.step.Seqs, d.step.Outputs = d.step.Tokens[:0], d.step.Seqs[:0], d.step.Outputs[:0]
}

// add puts tokens of a sequence into the step.
func (d *drafter) add(t *draftSeq, tokens []parley.Token) {
	if len(tokens) == 0 {
		return
	}
	s, blocks := &d.step, t.choice.seq.Table.Blocks
	s.Seqs = append(s.Seqs, compute.Seq{Row: len(s.Tokens), Rows: len(tokens), Past: t.from, Blocks: blocks})
	s.Tokens = append(s.Tokens, tokens...)
	for i, tok := range tokens {
		d.write(blocks, t.from+i, tok)
	}
	if t.depth > 0 {
		s.Outputs = append(s.Outputs, int32(len(s.Tokens)-1))
	}
}

// choose takes a guess for each sequence of the step that wants one: the token
// that the request's own sampler would choose, were these the true scores.
func (d *drafter) choose() {
	rows := d.logits
	for _, t := range d.turns {
		c := t.choice
		if t.depth == 0 || t.from+t.read != len(c.seq.Tokens)+len(c.guess) {
			continue
		}
		tok, err := c.sampler.Ahead(len(c.guess), t.scores(rows[:d.vocab]), &d.scratch)
		rows = rows[d.vocab:]
		if err != nil {
			t.depth = 0
			continue
		}
		c.guess = append(c.guess, tok)
		t.accept(tok)
	}
}
