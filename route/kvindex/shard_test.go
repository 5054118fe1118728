package kvindex

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"parley"
)

// checkShard returns an error if a shard's counts are not those of its entries.
func checkShard(s *shard) error {
	passed := make([]int, len(s.lines))
	n := 0
	for at := range s.lines {
		l := &s.lines[at]
		for i, e := range l.entries {
			if l.marks>>(8*i)&128 == 0 {
				continue
			}
			n++
			if got := l.marks >> (8 * i) & 255; got != mark(uint64(e)) {
				return fmt.Errorf("entry %d of line %d has the mark %x, not %x", i, at, got, mark(uint64(e)))
			}
			for from := s.home(uint64(e)); from != at; from = s.after(from) {
				passed[from]++
			}
		}
	}
	for at, want := range passed {
		if got := int(s.lines[at].marks >> passedShift); got != want && got != passedMost {
			return fmt.Errorf("%d entries passed line %d, counted %d", want, at, got)
		}
	}
	if n != int(s.n) || s.n > s.most {
		return fmt.Errorf("%d entries, counted %d of at most %d", n, s.n, s.most)
	}
	return nil
}

// checkAliases returns an error unless each name means a block that its engine has,
// and each such block has one name at most.
func checkAliases(x *Index) error {
	for w, known := range x.workers {
		if known == nil {
			continue
		}
		names := map[nodeID]bool{}
		for i := range known.aliases.shards {
			s := &known.aliases.shards[i]
			if err := checkShard(s); err != nil {
				return fmt.Errorf("shard %d of the names of worker %d: %w", i, w, err)
			}
			for _, e := range entriesOf(s) {
				n := e.alias()
				if names[n] || !x.sets.exact(x.table.at(n).set, Worker(w)) {
					return fmt.Errorf("worker %d has a name for node %d: it has another one, or the block is gone", w, n)
				}
				names[n] = true
			}
		}
	}
	return nil
}

func entriesOf(s *shard) (list []entry) {
	for at := range s.lines {
		for taken := s.lines[at].marks & takenBits; taken != 0; taken &= taken - 1 {
			list = append(list, s.lines[at].entries[first(taken)])
		}
	}
	return list
}

// A tableModel is a table and what should be in it.
type tableModel struct {
	*testing.T
	table   table
	rng     *rand.Rand
	keys    uint64 // that there may be
	nodes   map[key]nodeID
	present []key
}

func (m *tableModel) add() {
	k := key(m.rng.Uint64N(m.keys))
	b := m.table.obtain(m.table.place(k), k)
	if was, have := m.nodes[k]; have && was != b.id || b.key != k {
		m.Fatalf("key %d has node %d, which is that of %d", k, b.id, b.key)
	} else if !have {
		b.set = 1
		m.nodes[k], m.present = b.id, append(m.present, k)
	}
}

func (m *tableModel) remove() {
	if len(m.present) == 0 {
		return
	}
	i := m.rng.IntN(len(m.present))
	k := m.present[i]
	b, spot := m.table.find(k)
	if b.id != m.nodes[k] || m.table.place(k).spotOf(b.id) != spot {
		m.Fatalf("key %d is found as node %d, not %d", k, b.id, m.nodes[k])
	}
	m.table.remove(b, spot)
	if b, _ := m.table.find(k); b.id != nowhere {
		m.Fatalf("key %d is found after its removal", k)
	}
	delete(m.nodes, k)
	m.present[i] = m.present[len(m.present)-1]
	m.present = m.present[:len(m.present)-1]
}

// compare looks for everything that should be there.
func (m *tableModel) compare() {
	entries := 0
	for i := range m.table.shards {
		entries += int(m.table.shards[i].n)
		if err := checkShard(&m.table.shards[i]); err != nil {
			m.Fatal(err)
		}
	}
	if entries != len(m.nodes) || m.table.n != len(m.nodes) {
		m.Fatalf("%d entries, %d nodes, want %d", entries, m.table.n, len(m.nodes))
	}
	for k, n := range m.nodes {
		if got, _ := m.table.find(k); got.id != n {
			m.Fatalf("key %d is found as node %d, not %d", k, got.id, n)
		}
	}
}

// TestTableAgreesWithAMap inserts and removes keys in any order, with a secret as
// it should be and with ones that put all keys in one line, or give them one tag.
func TestTableAgreesWithAMap(t *testing.T) {
	for name, row := range map[string]struct {
		secret secret
		most   int
	}{"good": {newSecret(7), 100_000}, "one tag": {secret{}, 900}, "one line": {secret{odd: 1 << 20}, 900}} {
		t.Run(name, func(t *testing.T) {
			m := &tableModel{T: t, table: newTable(0), rng: rand.New(rand.NewPCG(1, 2)), keys: uint64(4 * row.most), nodes: map[key]nodeID{}}
			m.table.secret = row.secret
			for _, target := range []int{row.most, row.most / 2, row.most, 0, row.most / 10, 0} {
				for len(m.present) < target {
					m.add()
					if m.rng.IntN(3) == 0 {
						m.remove()
					}
				}
				m.compare()
				for len(m.present) > target {
					m.remove()
					if m.rng.IntN(3) == 0 && target > 0 {
						m.add()
					}
				}
				m.compare()
			}
			for i := range m.table.shards {
				if lines := len(m.table.shards[i].lines); lines > 1 {
					t.Errorf("an empty shard has %d lines", lines)
				}
			}
		})
	}
}

// TestBlocksThatComeTwiceInAnEvent are counted once.
func TestBlocksThatComeTwiceInAnEvent(t *testing.T) {
	x := newBench(t, 2, Source{Events: true})
	keys := namesFrom(1, 3)
	keys = append(keys, keys[1], keys[0])
	tokens := make([]parley.Token, 16*5)
	apply := func(w Worker, seq uint64, held int, e Event) {
		t.Helper()
		x.Apply(w, Batch{Seq: seq, Events: []Event{e}})
		if err := check(x); err != nil || x.Stats(w).Held != held {
			t.Fatalf("%d blocks held, want %d; %v", x.Stats(w).Held, held, err)
		}
	}
	apply(0, 0, 3, Event{Keys: keys})
	apply(0, 1, 1, Event{Kind: Removed, Keys: []key{keys[0], keys[1], keys[0]}})
	apply(1, 0, 4, Event{Engine: []uint64{1, 2, 3, 4, 1}, First: true, Tokens: tokens, BlockTokens: 16}) // the first is another block then
	apply(1, 1, 2, Event{Kind: Removed, Engine: []uint64{2, 3, 2, 9}})
}

// TestAnEngineThatGivesANameAgain is believed: what the name meant before is gone.
func TestAnEngineThatGivesANameAgain(t *testing.T) {
	x := newBench(t, 1, Source{Events: true})
	prompt := func(first parley.Token, blocks int) []parley.Token {
		tokens := make([]parley.Token, 16*blocks)
		tokens[0] = first
		return tokens
	}
	x.Apply(0, Batch{Events: []Event{{Engine: []uint64{1, 2, 3}, First: true, Tokens: prompt(1, 3), BlockTokens: 16}}})
	x.Apply(0, Batch{Seq: 1, Events: []Event{{Engine: []uint64{4, 5, 2, 6}, First: true, Tokens: prompt(2, 4), BlockTokens: 16}}})
	if err := check(x); err != nil || x.Stats(0).Held != 6 {
		t.Fatalf("%d blocks held, want 6; %v", x.Stats(0).Held, err)
	}
	var m Matches
	for first, want := range map[parley.Token]int32{1: 1, 2: 4} {
		if x.Lookup(parley.AppendBlockKeys(nil, 0, parley.Salt{}, prompt(first, 4), 16), &m); m.Of(0).Blocks != want {
			t.Errorf("prompt %d: %d blocks, want %d", first, m.Of(0).Blocks, want)
		}
	}
}

// TestWhatADroppedWorkerHeldIsSweptUp in pieces, except what others hold or it has
// told of again meanwhile.
func TestWhatADroppedWorkerHeldIsSweptUp(t *testing.T) {
	x := newBench(t, 3, Source{Events: true})
	own, shared := namesFrom(1, sweepNodes), namesFrom(1<<32, 100)
	x.Apply(0, Batch{Events: []Event{{Keys: own}, {Keys: shared}}})
	x.Apply(1, Batch{Events: []Event{{Keys: shared}}})
	expect := func(blocks int, held ...int32) {
		t.Helper()
		if err := check(x); err != nil || x.Blocks() != blocks {
			t.Fatalf("%d blocks, want %d; %v", x.Blocks(), blocks, err)
		}
		var m Matches
		x.Lookup(shared, &m)
		for w, want := range held {
			if got := m.Of(Worker(w)).Blocks; got != want {
				t.Fatalf("worker %d holds %d of the shared blocks, want %d", w, got, want)
			}
		}
	}
	expect(len(own)+len(shared), 100, 100, 0)
	x.Leave(0)
	if w, err := x.Join(Source{Events: true}); w != 0 || err != nil {
		t.Fatal(w, err)
	}
	if x.table.n != len(own)+len(shared) {
		t.Fatalf("%d nodes right after a worker left", x.table.n)
	}
	expect(len(shared), 0, 100, 0)
	x.Apply(0, Batch{Events: []Event{{Keys: own[:50]}, {Keys: shared[:10]}}})
	x.Apply(2, Batch{Events: []Event{{Keys: own[40:60]}}})
	expect(len(shared)+60, 10, 100, 0)
	for nodes := x.table.n; x.sets.abandoned > 0; nodes = x.table.n {
		x.Expire(time.Unix(0, 0))
		if gone := nodes - x.table.n; gone < 1 || gone > sweepNodes/forgetCost {
			t.Fatalf("one sweep forgot %d blocks", gone)
		}
		expect(len(shared)+60, 10, 100, 0)
	}
	if x.table.n != len(shared)+60 {
		t.Errorf("%d nodes after the sweep", x.table.n)
	}
}
