package kvindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley"
)

// checkShard counts the entries of a shard. It returns an error if those that passed a
// line are counted wrong.
func checkShard(s *shard) (n int, err error) {
	lines := s.all()
	passed := make([][2]int, len(lines))
	for at := range lines {
		for taken := lines[at].taken(); taken != 0; taken &= taken - 1 {
			n++
			tag := lines[at].tag(first(taken))
			for from := s.home(tag); from != at; from = s.after(from) {
				passed[from][tag>>40%2]++
			}
		}
	}
	for at, groups := range passed {
		for group, want := range groups {
			if got := int(lines[at].passes(uint64(group) << 40)); got != want && got != passedMost {
				return 0, fmt.Errorf("%d entries of group %d passed line %d, counted %d", want, group, at, got)
			}
		}
	}
	return n, nil
}

// checkSize returns an error if the shards of a table are not as its size says, or
// it is not as large as it should be.
func checkSize(shards []shard, z *size) error {
	entries, lines := 0, 0
	for i := range shards {
		n, err := checkShard(&shards[i])
		if err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
		entries, lines = entries+n, lines+int(shards[i].count)
	}
	if entries != z.entries || lines != z.lines {
		return fmt.Errorf("%d entries in %d lines, counted %d in %d", entries, lines, z.entries, z.lines)
	}
	if entriesOf*entries > entriesMost*lines || lines > max(entries, len(shards)) {
		return fmt.Errorf("%d entries have %d lines", entries, lines)
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
		if err := checkSize(known.aliases.shards[:], &known.aliases.size); err != nil {
			return fmt.Errorf("the names of worker %d: %w", w, err)
		}
		for _, n := range nodesOf(known.aliases.shards[:]) {
			if names[n] || !x.sets.exact(x.table.at(n).set, Worker(w)) {
				return fmt.Errorf("worker %d has a name for node %d: it has another one, or the block is gone", w, n)
			}
			names[n] = true
		}
	}
	return nil
}

// nodesOf lists the nodes to which names lead.
func nodesOf(shards []shard) (list []nodeID) {
	for i := range shards {
		for _, l := range shards[i].all() {
			for taken := l.taken(); taken != 0; taken &= taken - 1 {
				list = append(list, l.node(first(taken)))
			}
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
	b := m.table.obtain(m.table.place(k).aim(), k)
	m.table.fit()
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
	if b.id != m.nodes[k] || m.table.spotOf(b) != spot {
		m.Fatalf("key %d is found as node %d, not %d", k, b.id, m.nodes[k])
	}
	spot.take()
	m.table.remove(b)
	m.table.fit()
	if b, _ := m.table.find(k); b.id != nowhere {
		m.Fatalf("key %d is found after its removal", k)
	}
	delete(m.nodes, k)
	m.present[i] = m.present[len(m.present)-1]
	m.present = m.present[:len(m.present)-1]
}

// compare looks for everything that should be there.
func (m *tableModel) compare() {
	if err := checkSize(m.table.shards[:], &m.table.size); err != nil {
		m.Fatal(err)
	}
	if m.table.size.entries != len(m.nodes) {
		m.Fatalf("%d entries, want %d", m.table.size.entries, len(m.nodes))
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
			m := &tableModel{T: t, table: newTable(0), rng: rand.New(rand.NewPCG(1, 2)), keys: uint64(4 * row.most),
				nodes: map[key]nodeID{}}
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
			if lines := m.table.size.lines; lines > shards {
				t.Errorf("an empty table has %d lines", lines)
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
	// the first is another block then
	apply(1, 0, 4, Event{Engine: []uint64{1, 2, 3, 4, 1}, First: true, Tokens: tokens, BlockTokens: 16})
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
	x.Apply(0, Batch{Seq: 1,
		Events: []Event{{Engine: []uint64{4, 5, 2, 6}, First: true, Tokens: prompt(2, 4), BlockTokens: 16}}})
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

// TestANameGivenAgainMayMoveTheTable: what it meant is gone, the table shrinks, and
// the block that it means now must be found in the new one.
func TestANameGivenAgainMayMoveTheTable(t *testing.T) {
	const size = 2000
	x := newBench(t, 1, Source{Events: true})
	tokens := make([]parley.Token, 16*size)
	engine := make([]uint64, size)
	for i := range engine {
		engine[i], tokens[16*i] = uint64(i), 1
	}
	x.Apply(0, Batch{Events: []Event{{Engine: engine, First: true, Tokens: tokens, BlockTokens: 16}}})
	seq, left := uint64(1), size
	for ; x.table.size.entries > x.table.size.lines; left-- {
		x.Apply(0, Batch{Seq: seq, Events: []Event{{Kind: Removed, Engine: engine[left-1 : left]}}})
		seq++
	}
	// The block belongs in the shard that will shrink.
	largest := slices.MaxFunc(x.table.shards[:], byLines)
	keys := func() []key { return parley.AppendBlockKeys(nil, 0, parley.Salt{}, tokens[:16], 16) }
	for tokens[0]++; *x.table.place(keys()[0]).shard != largest; {
		tokens[0]++
	}
	x.Apply(0,
		Batch{Seq: seq, Events: []Event{{Engine: engine[:1], First: true, Tokens: tokens[:16], BlockTokens: 16}}})
	if *x.table.place(keys()[0]).shard == largest {
		t.Fatalf("nothing was moved with %d entries in %d lines", x.table.size.entries, x.table.size.lines)
	}
	if err := check(x); err != nil || x.Stats(0).Held != left {
		t.Fatalf("%d blocks held, want %d; %v", x.Stats(0).Held, left, err)
	}
	var m Matches
	if x.Lookup(keys(), &m); m.Of(0).Blocks != 1 {
		t.Error("the block is not found")
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
	if x.table.size.entries != len(own)+len(shared) {
		t.Fatalf("%d nodes right after a worker left", x.table.size.entries)
	}
	expect(len(shared), 0, 100, 0)
	x.Apply(0, Batch{Events: []Event{{Keys: own[:50]}, {Keys: shared[:10]}}})
	x.Apply(2, Batch{Events: []Event{{Keys: own[40:60]}}})
	expect(len(shared)+60, 10, 100, 0)
	for nodes := x.table.size.entries; x.sets.abandoned > 0; nodes = x.table.size.entries {
		x.Expire(time.Unix(0, 0))
		if gone := nodes - x.table.size.entries; gone < 1 || gone > sweepNodes/forgetCost {
			t.Fatalf("one sweep forgot %d blocks", gone)
		}
		expect(len(shared)+60, 10, 100, 0)
	}
	if x.table.size.entries != len(shared)+60 {
		t.Errorf("%d nodes after the sweep", x.table.size.entries)
	}
}

// TestAShardDoesNotShrinkBelowItsEntries: what has no room in fewer lines must not be
// lost.
func TestAShardDoesNotShrinkBelowItsEntries(t *testing.T) {
	all := make([]shard, 1)
	var z size
	z.reset(all)
	for tag := range uint64(lineEntries + 1) {
		z.add(shardTag{&all[0], tag << 40}, uint32(tag))
	}
	if all[0].count < 2 || z.resize(&all[0], 1) {
		t.Fatalf("%d entries in %d lines", lineEntries+1, all[0].count)
	}
	if n, err := checkShard(&all[0]); n != lineEntries+1 || err != nil {
		t.Errorf("%d entries are left; %v", n, err)
	}
}
