// Package draft drafts the tokens that a model will probably choose with a smaller one
// that has the same vocabulary.
//
// The draft network's key/value pool has as many blocks as the engine's and is addressed
// through the same block tables: a block has the same number in both pools, so blocks are
// accounted for once. The contents of a draft block may be missing or stale, because
// blocks are shared, copied and reassigned without regard to the draft network. For each
// block it is remembered which tokens were computed there, and what does not match is
// computed again. Answers never depend on the draft pool.
package draft

import (
	"slices"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/grammar"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/engine/spec"
	"parley/model/weights"
)

// A Config says what a network computes with.
type Config struct {
	// Forward computes a step of the draft network.
	Forward func(step *compute.Step, logits []float32)
	// Now is the clock.
	Now func() time.Time
	// Vocab is the number of scores in a row of logits, and Ends are the tokens with
	// which the model ends its text.
	Vocab int
	Ends  []parley.Token
	// Blocks are in the pool; a pass has at most Rows tokens of at most Seqs sequences.
	Blocks, Rows, Seqs int
}

// A Network runs the draft network. It belongs to one goroutine.
type Network struct {
	// Acceptance is that of all sequences.
	Acceptance spec.Acceptance

	cfg     Config
	pages   []page    // by block
	logits  []float32 // [Seqs][Vocab]
	step    compute.Step
	scratch sample.Scratch

	passes int
	pace   sched.Pace
	faults int
	rest   int // passes to go without, after a fault
}

// New returns a network whose pool holds nothing.
func New(cfg Config) *Network {
	return &Network{
		Acceptance: spec.Acceptance{Memory: memory},
		cfg:        cfg,
		pages:      make([]page, cfg.Blocks),
		logits:     make([]float32, cfg.Seqs*cfg.Vocab),
	}
}

// A page says what the draft network has in one block of its pool: the keys of
// these tokens, computed after all the tokens that before stands for.
type page struct {
	before, after uint64 // after is set when the page is full
	tokens        [compute.BlockTokens]parley.Token
	filled        int
}

// A Seq is one sequence's part in the draft passes before a pass.
type Seq struct {
	// Of is the sequence, Sampler what chooses its tokens, and Matcher where it stands
	// in its grammar, nil without one. IgnoreEnd: text may follow the end of text.
	Of        *sched.Seq
	Sampler   *sample.Sampler
	Matcher   *grammar.Matcher
	IgnoreEnd bool
	// Read is how many tokens may be read, and Depth how many guesses are wanted.
	Read, Depth int
	// Guess are the guesses.
	Guess []parley.Token

	from  int              // the first token to read
	ahead *grammar.Matcher // where the guesses stand in the grammar
}

// scores leaves of a row those that the grammar allows after the guesses.
func (t *Seq) scores(row []float32) []float32 {
	if t.Matcher == nil {
		return row
	}
	if len(t.Guess) == 0 {
		t.ahead = t.Matcher.Fork()
	}
	t.ahead.Mask().Apply(row, row)
	return row
}

// accept advances the grammar by a guess. The one with which it ends is not
// worth a row: nothing comes after it.
func (t *Seq) accept(tok parley.Token) {
	if t.Matcher != nil && (!t.ahead.Accept(tok) || t.ahead.Final()) {
		t.Depth = len(t.Guess) - 1
		t.Guess = t.Guess[:t.Depth]
	}
}

// cold is how many draft passes tell nothing of the time they take: memory
// is touched for the first time.
const cold = 2

// memory is how many guesses of all sequences together are remembered.
const memory = 400

// restMost bounds how many passes go by without drafts after faults.
const restMost = 1 << 12

// Held returns how many leading tokens of a sequence are in the draft pool.
func (d *Network) Held(q *sched.Seq) int {
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
func (d *Network) write(blocks []int32, pos int, t parley.Token) {
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

// Price returns what a draft pass for all who write is expected to take: what
// it takes anyway, and each row.
func (d *Network) Price(o *sched.Outlook) (pass, row time.Duration) {
	if !d.pace.Known() {
		return o.Pass / hope, o.Row / hope
	}
	all, row := d.pace.Price(o.Work)
	return max(0, all-time.Duration(o.Work.Rows)*row), row
}

// Known reports whether it was measured how long draft passes take.
func (d *Network) Known() bool { return d.pace.Known() }

// Rest returns how many passes go by without drafts, because of a fault.
func (d *Network) Rest() int { return d.rest }

// Pass notes that a pass is planned.
func (d *Network) Pass() { d.rest = max(0, d.rest-1) }

// hope is how many times faster than the engine's own the draft network
// is taken to be before it was measured.
const hope = 8

// Guess runs the draft passes for sequences. On an error there are no guesses, and what
// the pool holds is forgotten.
func (d *Network) Guess(seqs []*Seq) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = weights.PanicError(p)
		}
		if err != nil {
			d.fault(seqs)
		}
	}()
	for d.assemble(seqs); len(d.step.Tokens) > 0; d.assembleNext(seqs) {
		if err := d.step.Validate(len(d.pages)); err != nil {
			return err
		}
		began := d.cfg.Now()
		d.cfg.Forward(&d.step, d.logits)
		d.choose(seqs)
		if d.passes++; d.passes > cold {
			d.pace.Learn(workOf(&d.step), d.cfg.Now().Sub(began))
		}
	}
	d.faults = 0
	return nil
}

// workOf returns what a step is made of.
func workOf(s *compute.Step) (w sched.Work) {
	for i := range s.Seqs {
		w = w.Add(s.Seqs[i].Rows, s.Seqs[i].Past)
	}
	return w
}

// fault takes all guesses back and rests, the longer the more often it happens.
func (d *Network) fault(seqs []*Seq) {
	clear(d.pages)
	for _, t := range seqs {
		t.Guess = t.Guess[:0]
	}
	d.rest = min(1<<d.faults, restMost)
	d.faults++
}

// assemble makes the first draft pass: every sequence reads what it is behind
// with. Blocks that several share are read once.
func (d *Network) assemble(seqs []*Seq) {
	d.begin()
	left := d.cfg.Rows
	for _, t := range seqs {
		q := t.Of
		t.from = min(d.Held(q), len(q.Tokens)-1)
		t.Read = min(t.Read, left, len(q.Tokens)-t.from)
		if t.from+t.Read < len(q.Tokens) {
			t.Depth = 0
		}
		left -= t.Read
		d.add(t, q.Tokens[t.from:t.from+t.Read])
	}
}

// assembleNext assembles the next draft pass, of the sequences that want another token.
func (d *Network) assembleNext(seqs []*Seq) {
	d.begin()
	for _, t := range seqs {
		if len(t.Guess) == 0 || len(t.Guess) >= t.Depth {
			continue
		}
		last := t.Guess[len(t.Guess)-1]
		if !t.IgnoreEnd && slices.Contains(d.cfg.Ends, last) {
			continue
		}
		t.from, t.Read = t.from+t.Read, 1
		d.add(t, []parley.Token{last})
	}
}

func (d *Network) begin() {
	d.step.Tokens, d.step.Seqs, d.step.Outputs = d.step.Tokens[:0], d.step.Seqs[:0], d.step.Outputs[:0]
}

// add puts tokens of a sequence into the step.
func (d *Network) add(t *Seq, tokens []parley.Token) {
	if len(tokens) == 0 {
		return
	}
	s, blocks := &d.step, t.Of.Table.Blocks
	s.Seqs = append(s.Seqs, compute.Seq{Row: len(s.Tokens), Rows: len(tokens), Past: t.from, Blocks: blocks})
	s.Tokens = append(s.Tokens, tokens...)
	for i, tok := range tokens {
		d.write(blocks, t.from+i, tok)
	}
	if t.Depth > 0 {
		s.Outputs = append(s.Outputs, int32(len(s.Tokens)-1))
	}
}

// choose takes a guess for each sequence of the step that wants one: the token
// that the request's own sampler would choose, were these the true scores.
func (d *Network) choose(seqs []*Seq) {
	rows := d.logits
	for _, t := range seqs {
		if t.Depth == 0 || t.from+t.Read != len(t.Of.Tokens)+len(t.Guess) {
			continue
		}
		tok, err := t.Sampler.Ahead(len(t.Guess), t.scores(rows[:d.cfg.Vocab]), &d.scratch)
		rows = rows[d.cfg.Vocab:]
		if err != nil {
			t.Depth = 0
			continue
		}
		t.Guess = append(t.Guess, tok)
		t.accept(tok)
	}
}
