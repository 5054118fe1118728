package engine

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/engine/sample"
	"parley/engine/sched"
	"parley/engine/tier"
)

// counter is a network whose next token is one more than the sum of all tokens
// as they stand in the pool, modulo vocab, so that it notices when the pool
// holds something else than the engine thinks. With a period it repeats
// the tokens that stand that far back, except that every seventh is another.
type counter struct {
	period int
	t      *testing.T
	cells  map[[2]int32]parley.Token // by block and place
	delay  time.Duration
	room   int          // context, 256 unless given
	file   string       // of the disk tier
	lossy  int          // every how many blocks read from disk is damaged; 0: none
	close  func() error // the tiers
	store  *tier.Store

	ahead     bool // chooses tokens itself
	flights   []counterFlight
	drawn     drawn
	scratch   sample.Scratch
	speculate bool
	draft     *counter
	aside     *asideCopies // nil: copies are done at once
	clock     func() time.Time
	fault     func(step *compute.Step)
	steps     int
	width     int // of hidden states
	events    func(iter.Seq[kv.Event])
}

const counterVocab = 100

// A counterFlight is a step that was launched: what it chose, and when it is computed.
type counterFlight struct {
	chosen []compute.DrawResult
	done   time.Time
}

// launch computes a step and chooses its tokens, which the step after it may use.
// The time it takes passes in wait.
func (n *counter) launch(step *compute.Step, draws []compute.Draw) {
	var before []compute.DrawResult
	if len(n.flights) > 0 {
		before = n.flights[len(n.flights)-1].chosen
	}
	for i, tok := range step.Tokens {
		if tok < 0 {
			step.Tokens[i] = before[-1-tok].Token
		}
	}
	began, delay := time.Now(), n.delay
	if len(n.flights) > 0 {
		began = n.flights[len(n.flights)-1].done
	}
	n.delay = 0
	logits := make([]float32, len(step.Outputs)*counterVocab)
	n.forward(step, logits)
	n.delay = delay
	f := counterFlight{done: began.Add(delay)}
	for i, d := range draws {
		n.drawn.count(&d)
		chosen, _ := sample.Drawn(&d, before, logits[i*counterVocab:][:counterVocab], &n.scratch)
		f.chosen = append(f.chosen, chosen)
	}
	n.flights = append(n.flights, f)
}

// drawn counts what a device chose tokens with.
type drawn struct{ ahead, adjusted, masked, steered, scored int }

func (n *drawn) count(d *compute.Draw) {
	for at, is := range map[*int]bool{
		&n.ahead:    d.Adjust.Coming > 0,
		&n.adjusted: len(d.Adjust.Tokens) > 0,
		&n.masked:   d.Mask != nil,
		&n.steered:  slices.ContainsFunc(d.Adjust.Tokens, func(a compute.Adjustment) bool { return a.Steer != 0 }),
		&n.scored:   d.Logprobs,
	} {
		if is {
			*at++
		}
	}
}

func (n *drawn) add(o drawn) {
	n.ahead, n.adjusted, n.masked = n.ahead+o.ahead, n.adjusted+o.adjusted, n.masked+o.masked
	n.steered, n.scored = n.steered+o.steered, n.scored+o.scored
}

func (n *counter) wait() []compute.DrawResult {
	f := n.flights[0]
	n.flights = n.flights[1:]
	time.Sleep(time.Until(f.done))
	return f.chosen
}

func (n *counter) forward(step *compute.Step, logits []float32) {
	n.steps++
	for i := range step.Seqs {
		q := &step.Seqs[i]
		n.aside.join(q.Blocks[:(q.Past+q.Rows+compute.BlockTokens-1)/compute.BlockTokens])
	}
	n.reveal(step)
	time.Sleep(n.delay)
	if n.fault != nil {
		n.fault(step)
	}
	out := 0
	for _, q := range step.Seqs {
		for r := q.Row; r < q.Row+q.Rows; r++ {
			pos := q.Past + r - q.Row
			n.cells[[2]int32{q.Blocks[pos/compute.BlockTokens], int32(pos % compute.BlockTokens)}] = step.Tokens[r]
			if out < len(step.Outputs) && int(step.Outputs[out]) == r {
				row := logits[out*counterVocab:][:counterVocab]
				clear(row)
				row[n.next(&q, pos)] = 10
				out++
			}
		}
	}
}

func (n *counter) next(q *compute.Seq, pos int) parley.Token {
	sum := n.sum(q, pos)
	if back := pos + 1 - n.period; n.period > 0 && back >= 0 && sum%7 != 0 {
		return n.cells[[2]int32{q.Blocks[back/compute.BlockTokens], int32(back % compute.BlockTokens)}]
	}
	return (sum + 1) % counterVocab
}

// sum adds up the sequence's tokens as they stand in the pool.
func (n *counter) sum(q *compute.Seq, last int) parley.Token {
	var sum parley.Token
	for pos := range last + 1 {
		sum += n.cells[[2]int32{q.Blocks[pos/compute.BlockTokens], int32(pos % compute.BlockTokens)}]
	}
	return sum
}

func (n *counter) copyBlocks(dst, src []int32) {
	n.aside.join(dst)
	n.aside.join(src)
	for i := range dst {
		for p := range int32(compute.BlockTokens) {
			n.cells[[2]int32{dst[i], p}] = n.cells[[2]int32{src[i], p}]
		}
	}
}

func (n *counter) readBlock(dst []byte, block int32, at int) {
	if n.aside.later(dst, block, false, func() { n.readNow(dst, block, at) }) {
		return
	}
	n.readNow(dst, block, at)
}

func (n *counter) readNow(dst []byte, block int32, at int) {
	for p := range dst {
		dst[p] = byte(n.cells[[2]int32{block, int32(at + p)}])
	}
}

func (n *counter) writeBlock(block int32, at int, src []byte) {
	if n.aside.later(src, block, true, func() { n.writeNow(block, at, src) }) {
		return
	}
	n.writeNow(block, at, src)
}

func (n *counter) writeNow(block int32, at int, src []byte) {
	for p := range src {
		n.cells[[2]int32{block, int32(at + p)}] = parley.Token(src[p])
	}
}

// tiers opens the real tiers behind the counter's pool. Every few blocks read
// from disk are damaged if lossy is set.
func (n *counter) tiers(c *kv.Config) (move func(kv.Move) error, found []kv.DiskBlock, content *Content) {
	if n.file == "" {
		n.file = filepath.Join(n.t.TempDir(), "blocks")
	}
	store, found, err := tier.Open(tier.Config{
		Device: tier.Device{
			Copy:       n.copyBlocks,
			Read:       n.readBlock,
			Write:      n.writeBlock,
			Background: n.aside.background(),
		},
		BlockBytes: compute.BlockTokens, HostBlocks: c.HostBlocks, DiskBlocks: c.DiskBlocks, Path: n.file,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.close = store.Close
	n.store = store
	reads := 0
	return func(m kv.Move) error {
		if m.From == kv.Disk {
			if reads++; n.lossy > 0 && reads%n.lossy == 0 {
				return tier.ErrDamaged
			}
		}
		return store.Move(m)
	}, found, &Content{Bytes: compute.BlockTokens, Read: store.ReadBlock, Write: store.WriteBlock}
}

// expect returns the counter's answer.
func expect(prompt []parley.Token, n int) (out []parley.Token) {
	var sum parley.Token
	for _, t := range prompt {
		sum += t
	}
	for range n {
		next := (sum + 1) % counterVocab
		out = append(out, next)
		sum += next
	}
	return out
}

// counterBytes spells tokens: ten digits and a comma by themselves, which
// grammars need, and the others as numbers with a comma.
func counterBytes(t parley.Token) []byte {
	switch {
	case t < 10:
		return fmt.Appendf(nil, "%d", t)
	case t == 10:
		return []byte(",")
	}
	return fmt.Appendf(nil, "%d,", t)
}

func newCounter(t *testing.T, n *counter, s sched.Config) *Engine {
	t.Helper()
	n.t, n.cells = t, map[[2]int32]parley.Token{}
	cfg := Config{
		Model: parley.Model{ID: "counter", ContextTokens: max(n.room, 256)}, Vocab: counterVocab, Width: n.width,
		Ends:    []parley.Token{99},
		Bytes:   counterBytes,
		Forward: n.forward, Sched: s, Speculate: n.speculate, Now: n.clock, Events: n.events,
	}
	cfg.Move, cfg.Found, cfg.Content = n.tiers(&s.Cache)
	cfg.Background, cfg.Settle = n.store.Background(), n.store.Settle
	if n.ahead {
		cfg.Ahead = &Ahead{Launch: n.launch, Wait: n.wait}
	}
	if n.draft != nil {
		n.draft.t, n.draft.cells = t, map[[2]int32]parley.Token{}
		cfg.Speculate, cfg.Draft = true, &Draft{Forward: n.draft.forward}
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(e.Close(), n.close()); err != nil {
			t.Error(err)
		}
		if load := e.loop.sched.Load(); load.Pool.InUse != 0 || load.Running != 0 ||
			load.Waiting != [parley.Classes]int{} {
			t.Errorf("left behind: %+v", load)
		}
		if err := e.loop.sched.Check(); err != nil {
			t.Error(err)
		}
	})
	return e
}
