package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley"
	"parley/internal/scripttest"
)

// A fakeMemory is the memory that the cache decides about: for each tier and
// slot, what each token position holds. A position's content stands for keys
// and values: it depends on all tokens up to it.
type fakeMemory [tiers][][]uint64

func newFakeMemory(cfg Config) (m fakeMemory) {
	for t, n := range []int{cfg.Blocks, cfg.HostBlocks, cfg.DiskBlocks} {
		for range n {
			m[t] = append(m[t], make([]uint64, cfg.BlockTokens))
		}
	}
	return m
}

func (m *fakeMemory) do(moves []Move) {
	for _, v := range moves {
		copy(m[v.To][v.ToSlot], m[v.From][v.FromSlot])
	}
}

// A modelSeq is a sequence as its owner sees it.
type modelSeq struct {
	tokens   []parley.Token
	prompt   int
	computed int
	unseen   int // leading tokens that it does not look at again
	salt     parley.Salt
	hashes   []parley.BlockHash
	table    Table
}

// A world is a cache, the memory it decides about and what the model expects.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	c       *Cache
	mem     fakeMemory
	seqs    []*modelSeq
	trimmed int
	now     time.Time
	held    map[string]bool // what the events say can be found
	seen    uint64
	disk    []DiskBlock // what was written to each slot of the disk
}

// do makes the copies that were decided.
func (w *world) do() {
	moves := w.c.Moves()
	w.mem.do(moves)
	for _, m := range moves {
		if m.To == Disk {
			w.disk[m.ToSlot] = DiskBlock{m.Hash, m.Parent, m.ToSlot}
		}
	}
}

// TestRandomLife lets random sequences come, grow, fork and go under random
// configurations, over a small alphabet so that much is shared. After every
// operation the law must hold, every sequence's blocks must hold exactly its
// own context, and the events must add up to what can be found.
func TestRandomLife(t *testing.T) {
	var sum Stats
	trimmed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		cfg := Config{
			Blocks: 4 + rng.IntN(40), BlockTokens: 1 + rng.IntN(4), HostBlocks: rng.IntN(3) * rng.IntN(20),
			DiskBlocks: rng.IntN(2) * rng.IntN(20),
			Policy:     Policy(rng.IntN(2)), Ghosts: 1 + rng.IntN(100), Events: 4096, Seed: seed,
			RetainShare: rng.Float64(), TenantShare: rng.Float64(),
		}
		cfg.WatermarkBlocks = rng.IntN(cfg.Blocks)
		c, err := NewCache(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, rng: rng, c: c, mem: newFakeMemory(c.cfg), now: time.Unix(1, 0), held: map[string]bool{},
			disk: make([]DiskBlock, cfg.DiskBlocks)}
		for step := range 500 {
			w.step()
			w.do()
			w.verify()
			if t.Failed() {
				t.Fatalf("seed %d, step %d, config %+v", seed, step, cfg)
			}
		}
		w.finish()
		sum.add(c.Stats())
		trimmed += w.trimmed
	}
	if trimmed < 500 {
		t.Errorf("trimming has freed %d blocks", trimmed)
	}
	if slices.Contains(sum.Misses[:], 0) || slices.Contains(sum.HitBlocks[:], 0) ||
		slices.Contains(sum.Evicted[:], 0) || sum.Deduplicated == 0 || sum.RetainRefused == 0 {
		t.Errorf("something never happened: %+v", sum)
	}
}

func (s *Stats) add(o Stats) {
	for i := range o.Misses {
		s.Misses[i] += o.Misses[i]
	}
	for i := range o.HitBlocks {
		s.HitBlocks[i] += o.HitBlocks[i]
		s.Evicted[i] += o.Evicted[i]
	}
	s.Deduplicated += o.Deduplicated
	s.RetainRefused += o.RetainRefused
}

func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rng.ExpFloat64() * 3e9))
	switch op := w.rng.IntN(20); {
	case op < 5:
		w.arrive()
	case op < 12 && len(w.seqs) > 0:
		w.compute(w.seqs[w.rng.IntN(len(w.seqs))])
	case op < 14 && len(w.seqs) > 0:
		w.fork(w.seqs[w.rng.IntN(len(w.seqs))])
	case op < 18 && len(w.seqs) > 0:
		i := w.rng.IntN(len(w.seqs))
		w.c.Release(&w.seqs[i].table, w.now)
		w.seqs = slices.Delete(w.seqs, i, i+1)
	case op == 18 && w.rng.IntN(2) == 0:
		w.c.setBudget(&w.c.accounts.tenants, fmt.Sprint(w.rng.IntN(3)), w.rng.IntN(w.c.cfg.Blocks))
	case op == 18 && len(w.seqs) > 0:
		w.trim(w.seqs[w.rng.IntN(len(w.seqs))])
	case w.rng.IntN(3) > 0:
		w.c.Backup(w.rng.IntN(10))
	case w.rng.IntN(4) > 0:
		w.damage()
	}
}

func (w *world) arrive() {
	q := &modelSeq{}
	q.salt[0] = byte(w.rng.IntN(2))
	for range 1 + w.rng.IntN(30) {
		q.tokens = append(q.tokens, parley.Token(w.rng.IntN(8)/7))
	}
	q.prompt = len(q.tokens)
	q.extendHashes(w.c.cfg.BlockTokens)
	claim := &Claim{Prompt: q.tokens, Hashes: q.hashes, Tenant: fmt.Sprint(w.rng.IntN(3)),
		Class: fmt.Sprint(w.rng.IntN(2))}
	claim.Retain = time.Duration(w.rng.IntN(2)*w.rng.IntN(20)) * time.Second
	room := w.rng.IntN(len(q.tokens) + 5)
	_, fits := w.c.survey(claim, room)
	a, ok := w.c.Admit(&q.table, claim, room, w.now)
	if ok != fits || !ok && len(w.seqs) == 0 && w.c.BlocksFor(max(room, len(q.tokens))) <= w.c.cfg.Blocks {
		w.t.Errorf("a claim of %d tokens and room for %d: fits %t, admitted %t, %d sequences run, %+v", len(q.tokens),
			room, fits, ok, len(w.seqs), w.c.Use(Device))
	}
	if !ok {
		return
	}
	if a.HitTokens >= q.prompt || a.HitTokens < 0 {
		w.t.Errorf("%d of %d tokens known", a.HitTokens, q.prompt)
	}
	q.computed = a.HitTokens
	w.seqs = append(w.seqs, q)
}

func (q *modelSeq) extendHashes(size int) {
	for i := len(q.hashes); (i+1)*size <= len(q.tokens); i++ {
		var parent parley.BlockHash
		if i > 0 {
			parent = q.hashes[i-1]
		}
		q.hashes = append(q.hashes, parley.HashBlock(parent, q.salt, q.tokens[i*size:][:size]))
	}
}

// compute lets a sequence compute some of its tokens, choosing new ones at the
// end, and seal what is full, or all but the last of that. Now and then it proposes too much and shrinks.
func (w *world) compute(q *modelSeq) {
	size := w.c.cfg.BlockTokens
	upTo := q.computed + 1 + w.rng.IntN(10)
	for len(q.tokens) < upTo {
		q.tokens = append(q.tokens, parley.Token(w.rng.IntN(2)))
	}
	q.extendHashes(size)
	if can := w.c.BlocksFor(upTo)-len(q.table.Blocks) <= w.c.Available(); w.c.Grow(&q.table, upTo, w.now) != can {
		w.t.Errorf("growing to %d tokens should give %t", upTo, can)
	} else if !can {
		return
	}
	w.do()
	for ; q.computed < upTo; q.computed++ {
		w.mem[Device][q.table.Blocks[q.computed/size]][q.computed%size] = contentOf(0, q.tokens[:q.computed+1])
	}
	late := w.rng.IntN(2) // the last one may be shared, and sealed by another sequence before
	for i := q.table.Sealed(); (i+1+late)*size <= q.computed; i++ {
		if err := w.c.Seal(&q.table, q.hashes[i], q.tokens[i*size:][:size]); err != nil {
			w.t.Error(err)
		}
		if q.table.Sealed() <= i {
			break
		}
	}
	if w.rng.IntN(5) == 0 {
		w.c.Grow(&q.table, upTo+9, w.now)
	}
}

// trim lets a sequence look at some of its latest tokens alone from now on.
func (w *world) trim(q *modelSeq) {
	window := 1 + w.rng.IntN(10)
	q.unseen = max(q.unseen, q.computed-window)
	free := w.c.Use(Device).Free
	freed := w.c.Trim(&q.table, q.unseen/w.c.cfg.BlockTokens)
	if now := w.c.Use(Device).Free; now != free+freed {
		w.t.Errorf("trimming frees %d blocks, but %d are free after %d", freed, now, free)
	}
	w.trimmed += freed
}

func (w *world) fork(q *modelSeq) {
	child := &modelSeq{tokens: slices.Clone(q.tokens[:q.computed]), prompt: q.prompt, computed: q.computed,
		unseen: q.unseen, salt: q.salt}
	child.extendHashes(w.c.cfg.BlockTokens)
	if w.c.Fork(&q.table, &child.table, q.computed, w.now) {
		w.seqs = append(w.seqs, child)
	}
}

// verify compares the cache with the model.
func (w *world) verify() {
	if err := w.c.Check(); err != nil {
		w.t.Error(err)
	}
	size := w.c.cfg.BlockTokens
	for _, q := range w.seqs {
		for pos := q.unseen; pos < q.computed; pos++ {
			slot := q.table.Blocks[pos/size]
			if got, want := w.mem[Device][slot][pos%size], contentOf(0, q.tokens[:pos+1]); got != want {
				w.t.Errorf("block %d does not hold position %d of %v", slot, pos, q.tokens)
				return
			}
		}
	}
	w.followEvents()
}

// followEvents applies the new events to a set and compares it with the snapshot.
func (w *world) followEvents() {
	name := func(e Event) string { return fmt.Sprintf("%x %s", e.Hash[:6], e.Tier) }
	events, ok := w.c.EventsSince(w.seen)
	if !ok {
		w.t.Errorf("the events after %d are gone", w.seen)
		return
	}
	for e := range events {
		w.seen++
		switch {
		case e.Seq != w.seen:
			w.t.Errorf("event %d came as number %d", e.Seq, w.seen)
		case e.Kind == Cleared:
			clear(w.held)
		case (e.Kind == Stored) == w.held[name(e)]:
			w.t.Errorf("event %+v repeats what is so", e)
		case e.Kind == Stored:
			w.held[name(e)] = true
		default:
			delete(w.held, name(e))
		}
	}
	n := 0
	_, blocks := w.c.Snapshot()
	for e := range blocks {
		if n++; !w.held[name(e)] {
			w.t.Errorf("the snapshot has %s, which no event told", name(e))
		}
	}
	if n != len(w.held) {
		w.t.Errorf("the snapshot has %d blocks, the events %d", n, len(w.held))
	}
}

// finish releases everything: nothing may be left in use.
func (w *world) finish() {
	for _, q := range w.seqs {
		w.c.Release(&q.table, w.now)
	}
	if u := w.c.Use(Device); u.InUse != 0 || w.c.Check() != nil {
		w.t.Errorf("left behind: %+v, %v", u, w.c.Check())
	}
}

// TestRepair damages the account in every way a count can be wrong; Repair
// must say so, and afterwards the law holds and the sequences have their blocks.
func TestRepair(t *testing.T) {
	release := func(c *Cache, slot int32) { c.slots.free[Device] = append(c.slots.free[Device], slot) }
	damages := map[string]func(c *Cache){
		"a reference too many": func(c *Cache) { c.tree.nodes[c.tables[0].nodes[0]].refs++ },
		"a reference too few":  func(c *Cache) { c.tree.nodes[c.tables[0].nodes[0]].refs-- },
		"a lost slot":          func(c *Cache) { c.popSlot(Device) },
		"a slot free twice":    func(c *Cache) { release(c, c.slots.free[Device][0]) },
		"a slot in use freed":  func(c *Cache) { release(c, c.tables[0].Blocks[0]) },
		"a lost node":          func(c *Cache) { c.tree.freeNodes = c.tree.freeNodes[1:] },
		"a wrong child count":  func(c *Cache) { c.tree.nodes[c.tables[0].nodes[0]].kids[Device]++ },
		"a wrong cached count": func(c *Cache) { c.slots.cached[Device]-- },
		"a lost name":          func(c *Cache) { c.tree.byHash.remove(key(&c.tree.nodes[c.tables[0].nodes[0]].hash)) },
		"a wrong parent":       func(c *Cache) { c.tree.nodes[c.tables[0].nodes[1]].parent = 0 },
	}
	for name, damage := range damages {
		s := newScript(&scripttest.Script{T: t})
		play := func(text string) {
			scripttest.Trace(t, text, func(*scripttest.Script) func(scripttest.Words) { return s.execute })
		}
		play("config blocks=12 size=2 events=8\nadmit a aabbcc\ncompute a\nadmit b aabbdd\ncompute b\n" +
			"release b\nadmit b aaxxyy\ncompute b\nadmit c 1122\ncompute c\nrelease c")
		before := slices.Clone(s.seqs["a"].table.Blocks)
		if err := s.c.Repair(); err != nil {
			t.Fatalf("nothing is wrong, but Repair found %v", err)
		}
		damage(s.c)
		if err := s.c.Repair(); err == nil {
			t.Errorf("%s went unnoticed", name)
		}
		if err := s.c.Check(); err != nil {
			t.Errorf("%s was not repaired: %v", name, err)
		}
		if u := s.c.Use(Device); u.InUse != 5 || !slices.Equal(before, s.seqs["a"].table.Blocks) {
			t.Errorf("after %s: %+v, blocks %v, were %v", name, u, s.seqs["a"].table.Blocks, before)
		}
		play("trim b 2\nrelease a\nrelease b\nadmit again aabbcc")
		if err := s.c.Check(); err != nil || len(s.seqs["again"].table.Blocks) != 3 {
			t.Errorf("after %s life does not go on: %v", name, err)
		}
	}
}

// damage loses the content of some block: its users start anew.
func (w *world) damage() {
	id := int32(1 + w.rng.IntN(len(w.c.tree.nodes)-1))
	hash := w.c.tree.nodes[id].hash
	if !w.c.tree.nodes[id].sealed {
		return
	}
	w.seqs = slices.DeleteFunc(w.seqs, func(q *modelSeq) bool {
		uses := slices.Contains(q.table.nodes, id)
		if uses {
			w.c.Release(&q.table, w.now)
		}
		return uses
	})
	if !w.c.Forget(hash) || w.c.lookup(&hash) != 0 {
		w.t.Errorf("block %x is not forgotten", hash[:6])
	}
}

// TestAdopt lets a cache die and another one take over what it left on disk:
// every block whose path is there must be found again, and nothing else.
func TestAdopt(t *testing.T) {
	taken := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 8))
		cfg := Config{Blocks: 8 + rng.IntN(30), BlockTokens: 2, DiskBlocks: 1 + rng.IntN(60), Events: 4096, Ghosts: 50,
			Seed: seed}
		c, err := NewCache(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, rng: rng, c: c, mem: newFakeMemory(c.cfg), now: time.Unix(1, 0), held: map[string]bool{},
			disk: make([]DiskBlock, cfg.DiskBlocks)}
		for range 300 {
			w.step()
			w.do()
		}
		for c.Backup(7) > 0 {
			w.do()
		}
		heir, _ := NewCache(cfg)
		taken += heir.Adopt(w.disk)
		if err := heir.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for id := range c.tree.nodes {
			if n := &c.tree.nodes[id]; n.sealed && (n.tier == Disk || n.copy != 0) && completeOnDisk(c, int32(id)) &&
				heir.lookup(&n.hash) == 0 {
				t.Errorf("seed %d: block %x is on disk with all before it, but not found", seed, n.hash[:6])
			}
		}
		w.c, w.seqs, w.seen = heir, nil, 0
		clear(w.held)
		for range 200 {
			w.step()
			w.do()
			w.verify()
		}
	}
	if taken < 100 {
		t.Errorf("only %d blocks were taken over", taken)
	}
}

func completeOnDisk(c *Cache, id int32) bool {
	for ; id != 0; id = c.tree.nodes[id].parent {
		if n := &c.tree.nodes[id]; n.tier != Disk && n.copy == 0 {
			return false
		}
	}
	return true
}

// TestAdoptRefuses shows that damaged headers lead to nothing but misses.
func TestAdoptRefuses(t *testing.T) {
	name := func(b byte) parley.BlockHash { return parley.BlockHash{b} }
	for what, found := range map[string][]DiskBlock{
		"no parent":             {{name(2), name(1), 0}},
		"parents in a circle":   {{name(1), name(2), 0}, {name(2), name(1), 1}},
		"its own parent":        {{name(1), name(1), 0}},
		"a slot outside":        {{name(1), parley.BlockHash{}, 9}, {name(2), name(1), 1}},
		"a slot below":          {{name(1), parley.BlockHash{}, -1}},
		"a child of a bad slot": {{name(2), name(1), 0}, {name(1), parley.BlockHash{}, 7}},
	} {
		c, err := NewCache(Config{Blocks: 4, DiskBlocks: 4})
		if err != nil {
			t.Fatal(err)
		}
		if n := c.Adopt(found); n != 0 || c.Check() != nil {
			t.Errorf("%s: %d blocks were taken, %v", what, n, c.Check())
		}
	}
	c, _ := NewCache(Config{Blocks: 4, DiskBlocks: 4})
	twice := []DiskBlock{{name(2), name(1), 1}, {name(1), parley.BlockHash{}, 0}, {name(1), parley.BlockHash{}, 2},
		{name(3), name(1), 1}}
	if n := c.Adopt(twice); n != 2 || c.Check() != nil {
		t.Errorf("%d blocks were taken of two, %v", n, c.Check())
	}
}
