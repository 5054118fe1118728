package kvindex

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"parley"
)

// check returns an error if what the index keeps twice does not agree.
func check(x *Index) error {
	users := map[setID]uint32{}
	held := make([][tiers]int, len(x.workers))
	nodes, abandoned := 0, 0
	var err error
	x.table.each(func(at block) {
		nodes++
		users[at.set]++
		if x.sets.about[at.set].size == 0 {
			abandoned++
		}
		if found, _ := x.table.find(at.key); found != at {
			err = fmt.Errorf("node %d is found as %d", at.id, found.id)
		}
		for w := range x.workers {
			for tier := range tiers {
				if x.sets.has(at.set, Worker(w), tier) {
					held[w][tier]++
				}
			}
		}
	})
	for w, known := range x.workers {
		if known == nil {
			known = &worker{}
		}
		if held[w] != known.held {
			return fmt.Errorf("worker %d holds %v blocks, counted %v", w, held[w], known.held)
		}
		if known.history.size != known.held[expected] {
			return fmt.Errorf("worker %d has a history of %d blocks and %d are expected", w, known.history.size,
				known.held[expected])
		}
	}
	for id, about := range x.sets.about {
		if users[setID(id)] != about.users {
			return fmt.Errorf("set %d has %d users, counted %d", id, users[setID(id)], about.users)
		}
	}
	if wrong := checkSize(x.table.shards[:], &x.table.size); wrong != nil {
		return fmt.Errorf("the table: %w", wrong)
	}
	if wrong := checkAliases(x); wrong != nil {
		return wrong
	}
	if abandoned != x.sets.abandoned {
		return fmt.Errorf("%d blocks are abandoned, counted %d", abandoned, x.sets.abandoned)
	}
	if wrong := checkSets(&x.sets); wrong != nil {
		return wrong
	}
	if nodes != x.table.size.entries || int(x.table.used) != 1+nodes+len(x.table.free) {
		return fmt.Errorf("%d nodes, %d entries, %d of %d free", nodes, x.table.size.entries, len(x.table.free),
			x.table.used)
	}
	return err
}

// checkSets returns an error if what is noted of sets is not what their words say,
// or one is found that should not be.
func checkSets(s *sets) error {
	for id, about := range s.about {
		if about.users == 0 {
			continue
		}
		hash, size := uint64(0), uint32(0)
		for bit := range 64 * s.width * int(tiers) {
			if w, tier := Worker(bit%(64*s.width)), CacheTier(bit/(64*s.width)); s.has(setID(id), w, tier) {
				hash, size = hash^s.hash(w, tier), size+1
			}
		}
		if hash != about.hash || size != about.size {
			return fmt.Errorf("set %d has %d members, counted %d", id, size, about.size)
		}
	}
	for hash, id := range s.byHash {
		if s.about[id].hash != hash || s.about[id].users == 0 {
			return fmt.Errorf("set %d is found by the hash of another, or has no users", id)
		}
	}
	for bit, id := range s.single {
		if id != none && (s.about[id].size != 1 || s.about[id].users == 0 || s.first(id) != bit) {
			return fmt.Errorf("set %d is not the one that has only member %d", id, bit)
		}
	}
	return nil
}

// A modelWorker is a worker as it really is, and the network before it.
type modelWorker struct {
	source Source
	engine bool // it has its own names for blocks
	first  uint64
	log    []Batch
	kept   int // batches that can be repeated
	blocks map[modelBlock]bool
}

type modelBlock struct {
	tier   CacheTier
	prompt int
	at     int
}

// A model is a fleet of workers with a few prompts that begin alike in pairs.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	x       *Index
	workers []*modelWorker
	prompts [][]parley.Token
	names   [][]parley.BlockKey
	numbers map[parley.BlockKey]uint64 // what engines call blocks, of a weak model
}

const (
	modelBlocks = 12
	modelSize   = 4 // tokens of a block
)

// newModel makes one. In a weak one all blocks belong in the same line of the same
// shard, with the same tag, and so do all names of an engine, with other tags.
func newModel(t *testing.T, seed uint64, weak bool) *model {
	x, err := New(Config{BlockTokens: modelSize, PendingBlocks: 60, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), x: x}
	if weak {
		x.table.secret, m.numbers = secret{}, map[parley.BlockKey]uint64{}
	}
	for p := range 6 {
		tokens := make([]parley.Token, modelBlocks*modelSize)
		for i := range tokens {
			tokens[i] = parley.Token(p/2*1000 + i + p%2*max(0, i-16)*100)
		}
		m.prompts = append(m.prompts, tokens)
		m.names = append(m.names, parley.AppendBlockKeys(nil, 0, m.salt(p), tokens, modelSize))
	}
	for i := range 70 { // more than one word of workers
		s := Source{Events: true, Replay: i%2 == 0, Snapshot: i%3 == 0, CapacityBlocks: i % 4 * 10}
		w, err := x.Join(s)
		if err != nil || w != Worker(i) {
			t.Fatal(w, err)
		}
		if weak {
			x.workers[w].aliases.secret = secret{odd: 1 << 30}
		}
		m.workers = append(m.workers, &modelWorker{source: s, engine: i%5 == 0, first: uint64(i % 2), kept: 3 + i%7*3,
			blocks: map[modelBlock]bool{}})
	}
	return m
}

func (m *model) salt(prompt int) (s parley.Salt) {
	s[0] = byte(prompt / 4)
	return s
}

// holds reports whether a worker has a block in some tier, by its name: pairs
// of prompts share their first ones.
func (m *model) holds(w *modelWorker, name parley.BlockKey, tiers ...CacheTier) bool {
	for b := range w.blocks {
		if m.names[b.prompt][b.at] == name && (len(tiers) == 0 || slices.Contains(tiers, b.tier)) {
			return true
		}
	}
	return false
}

func (m *model) hasChild(w *modelWorker, parent modelBlock) bool {
	for b := range w.blocks {
		if b.at == parent.at+1 && m.names[b.prompt][parent.at] == m.names[parent.prompt][parent.at] {
			return true
		}
	}
	return false
}

func (m *model) engineName(w int, name parley.BlockKey) uint64 {
	if m.numbers == nil {
		return mix(uint64(name) + uint64(w))
	}
	if m.numbers[name] == 0 {
		m.numbers[name] = uint64(len(m.numbers) + 1)
	}
	return m.numbers[name]
}

// stored makes the event of a block that came to a tier.
func (m *model) stored(w int, b modelBlock) Event {
	name := m.names[b.prompt][b.at]
	if !m.workers[w].engine {
		return Event{Tier: b.tier, Keys: []parley.BlockKey{name}}
	}
	e := Event{
		Tier: b.tier, Engine: []uint64{m.engineName(w, name)}, First: b.at == 0, BlockTokens: modelSize,
		Tokens: m.prompts[b.prompt][b.at*modelSize:][:modelSize], Salt: m.salt(b.prompt), Salted: b.at == 0,
	}
	if b.at > 0 {
		e.Parent = m.engineName(w, m.names[b.prompt][b.at-1])
	}
	return e
}

func (m *model) removed(w int, b modelBlock) Event {
	name := m.names[b.prompt][b.at]
	if m.workers[w].engine {
		return Event{Kind: Removed, Tier: b.tier, Engine: []uint64{m.engineName(w, name)}}
	}
	return Event{Kind: Removed, Tier: b.tier, Keys: []parley.BlockKey{name}}
}

// change does something to a worker's memory and returns its event.
func (m *model) change(w int) Event {
	worker := m.workers[w]
	b := modelBlock{CacheTier(m.rng.IntN(3)), m.rng.IntN(len(m.prompts)), m.rng.IntN(modelBlocks)}
	if worker.engine { // goes from block to block, and evicts from the end
		b.at = 0
		for b.at < modelBlocks-1 && m.holds(worker, m.names[b.prompt][b.at]) {
			b.at++
		}
	}
	if worker.source.CapacityBlocks > 0 {
		b.tier = Device
	}
	name := m.names[b.prompt][b.at]
	switch {
	case m.rng.IntN(60) == 0:
		clear(worker.blocks)
		return Event{Kind: Cleared}
	case m.rng.IntN(5) > 1 && (worker.source.CapacityBlocks == 0 || len(worker.blocks) < worker.source.CapacityBlocks):
		if m.holds(worker, name, b.tier) {
			return m.stored(w, b) // again, which changes nothing
		}
		worker.blocks[b] = true
		return m.stored(w, b)
	case worker.engine && b.at > 0:
		if b.at--; m.hasChild(worker, b) {
			return Event{Kind: Removed, Tier: CacheTier(9), Engine: []uint64{1}} // of a tier that we do not know
		}
	}
	e := m.removed(w, b)
	for other := range worker.blocks {
		if m.names[other.prompt][other.at] == m.names[b.prompt][b.at] && other.tier == b.tier {
			delete(worker.blocks, other)
		}
	}
	return e
}

// publish makes a batch and delivers it, or not, or too often.
func (m *model) publish(w int, surely bool) {
	worker := m.workers[w]
	b := Batch{Seq: worker.first + uint64(len(worker.log))}
	for range m.rng.IntN(4) {
		b.Events = append(b.Events, m.change(w))
	}
	worker.log = append(worker.log, b)
	for range 1 + m.rng.IntN(10)/9 {
		if surely || m.rng.IntN(10) > 0 {
			m.x.Apply(Worker(w), b)
		}
	}
}

// answer gives a worker's answer to what the index asks, until it asks no more.
func (m *model) answer(w int) {
	worker := m.workers[w]
	for ask := m.x.Wants(Worker(w)); ask != (Ask{}); {
		if ask.Snapshot {
			ask = m.x.Restore(Worker(w), worker.first+uint64(len(worker.log))-1, m.snapshot(w))
			continue
		}
		for _, b := range worker.log[max(0, len(worker.log)-worker.kept):] {
			if b.Seq >= ask.From {
				m.x.Apply(Worker(w), b)
			}
		}
		ask = m.x.ReplayEnded(Worker(w))
	}
}

func (m *model) snapshot(w int) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for at := range modelBlocks {
			for b := range m.workers[w].blocks {
				if b.at == at && !yield(m.stored(w, b)) {
					return
				}
			}
		}
	}
}

// want is the answer of a lookup, counted naively.
func (m *model) want(w *modelWorker, names []parley.BlockKey) (match Match) {
	for _, name := range names {
		switch {
		case m.holds(w, name, Device):
		case m.holds(w, name, Host):
			match.Host++
		case m.holds(w, name, Disk):
			match.Disk++
		default:
			return match
		}
		match.Blocks++
	}
	return match
}

// compare holds the index against the workers: equal where it claims to be
// exact, and never more than there is.
func (m *model) compare() (exact int) {
	m.t.Helper()
	if err := check(m.x); err != nil {
		m.t.Fatal(err)
	}
	var matches Matches
	for p, names := range m.names {
		m.x.Lookup(names, &matches)
		for w, worker := range m.workers {
			got, want := matches.Of(Worker(w)), m.want(worker, names)
			switch m.x.State(Worker(w)) {
			case Exact:
				exact++
				if got != want {
					m.t.Fatalf("prompt %d: worker %d holds %+v, want %+v", p, w, got, want)
				}
			default:
				if got.Blocks > want.Blocks {
					m.t.Fatalf("prompt %d: worker %d, which is %s, holds %+v, only %+v are there", p, w,
						m.x.State(Worker(w)), got, want)
				}
			}
		}
	}
	return exact
}

// TestIndexAgreesWithWorkers sends events over a network that loses and
// repeats batches, from workers that can repeat some of them or give
// snapshots, or neither.
func TestIndexAgreesWithWorkers(t *testing.T) {
	exact, compared := 0, 0
	var total Counts
	for seed := range uint64(6) {
		m := newModel(t, seed, seed >= 4)
		for range 30 {
			for range 300 {
				w := m.rng.IntN(len(m.workers))
				m.publish(w, false)
				if m.rng.IntN(4) == 0 {
					m.answer(w)
				}
			}
			for w := range m.workers {
				m.publish(w, true)
				m.answer(w)
			}
			exact += m.compare()
			compared += len(m.workers) * len(m.names)
		}
		for w := range m.workers {
			s := m.x.Stats(Worker(w))
			total.Gaps, total.Losses, total.Snapshots, total.Repeated = total.Gaps+s.Gaps, total.Losses+
				s.Losses, total.Snapshots+s.Snapshots, total.Repeated+s.Repeated
			if s.Unplaced > 0 && s.Losses == 0 && !m.workers[w].engine {
				t.Errorf("worker %d: %+v", w, s)
			}
		}
		for w := range m.workers {
			m.x.Leave(Worker(w))
		}
		if err := check(m.x); err != nil || m.x.Blocks() != 0 {
			t.Errorf("after all have left there are %d blocks, %v", m.x.Blocks(), err)
		}
		for m.x.sets.abandoned > 0 {
			m.x.Expire(time.Unix(0, 0))
		}
		if err := check(m.x); err != nil || m.x.table.size.entries != 0 || len(m.x.salts.ids) != 1 {
			t.Errorf("after all have left there are %d blocks and %d salts, %v", m.x.Blocks(), len(m.x.salts.ids), err)
		}
	}
	t.Logf("%d of %d comparisons with exact workers; %+v", exact, compared, total)
	if exact < compared/2 || total.Gaps == 0 || total.Losses == 0 || total.Snapshots == 0 || total.Repeated == 0 {
		t.Errorf("%d of %d comparisons with exact workers; %+v", exact, compared, total)
	}
}

// TestHistoryIsAnLRU holds the memory of what was sent to a worker without
// events against a list, while the worker's size changes.
func TestHistoryIsAnLRU(t *testing.T) {
	const lives = time.Minute
	most := 20
	x, err := New(Config{RememberFor: lives})
	if err != nil {
		t.Fatal(err)
	}
	w, _ := x.Join(Source{CapacityBlocks: most})
	type sent struct {
		name parley.BlockKey
		at   time.Time
	}
	var list []sent // latest first
	rng := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(0, 0)
	var m Matches
	for i := range 3000 {
		if i%50 == 0 {
			most = 5 + rng.IntN(30)
			x.Resize(w, most)
			list = list[:min(len(list), most)]
		}
		now = now.Add(time.Duration(rng.IntN(int(lives / 4))))
		names := namesFrom(uint64(rng.IntN(8)*100), 1+rng.IntN(8))
		x.Expire(now)
		first, anyNew := x.Expect(w, names, now)
		for _, name := range slices.Backward(names) {
			list = slices.DeleteFunc(list, func(s sent) bool { return s.name == name || !now.Before(s.at.Add(lives)) })
			list = slices.Insert(list, 0, sent{name, now})
		}
		list = list[:min(len(list), most)]
		if anyNew && rng.IntN(3) == 0 {
			x.Unexpect(w, names, first, now)
			back := names[slices.Index(names, first):]
			list = slices.DeleteFunc(list, func(s sent) bool { return slices.Contains(back, s.name) })
		}
		names = namesFrom(uint64(rng.IntN(8)*100), 8)
		want := 0
		for want < len(names) && slices.ContainsFunc(list, func(s sent) bool { return s.name == names[want] }) {
			want++
		}
		if x.Lookup(names, &m); m.Of(w) != (Match{Blocks: int32(want), Expected: int32(want)}) {
			t.Fatalf("%v: %+v, want %d", now, m.Of(w), want)
		}
		if err := check(x); err != nil {
			t.Fatal(err)
		}
	}
}

func TestJoinIsBounded(t *testing.T) {
	x, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range WorkersMax {
		if _, err := x.Join(Source{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Join(Source{}); err != ErrFull {
		t.Errorf("one more: %v", err)
	}
	x.Leave(500)
	if w, err := x.Join(Source{}); w != 500 || err != nil {
		t.Errorf("the number that is free again: %d, %v", w, err)
	}
	if _, err := New(Config{ExpectFor: -1}); err == nil {
		t.Error("a negative time was accepted")
	}
}

// TestManyWorkers looks up blocks of a fleet as large as it may be, beside that of a
// few workers.
func TestManyWorkers(t *testing.T) {
	prompt := namesFrom(1, 64)
	for _, n := range []int{3, 65, 1025, WorkersMax} {
		x := newBench(t, n, Source{Events: true})
		some := map[Worker]int{0: 1, Worker(n / 2): 30, Worker(n - 1): 64}
		for w, blocks := range some {
			x.Apply(w, Batch{Events: []Event{{Keys: prompt[:blocks]}}})
		}
		for round := range 2 {
			var m Matches
			x.Lookup(prompt, &m)
			for w := range Worker(n) {
				if got := m.Of(w).Blocks; int(got) != some[w] {
					t.Errorf("%d workers: worker %d holds %d blocks, want %d", n, w, got, some[w])
				}
			}
			if err := check(x); err != nil {
				t.Fatal(err)
			}
			if round == 0 {
				x.Leave(Worker(n - 1))
				delete(some, Worker(n-1))
			}
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	x := newBench(t, 3, Source{Events: true})
	names := namesFrom(1, 500)
	x.Apply(1, Batch{Events: []Event{{Keys: names[:300]}}})
	var m Matches
	x.Lookup(names, &m)
	if n := testing.AllocsPerRun(100, func() { x.Lookup(names, &m) }); n > 0 {
		t.Errorf("%.1f allocations in each lookup", n)
	}
}

// FuzzApply gives the index whatever batches a worker may send; its own
// accounts must stay right, and the stream must never be stuck.
func FuzzApply(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18})
	f.Add([]byte{255, 254, 3, 3, 3, 90, 1, 2, 3, 200, 100, 50, 25, 12, 6, 3, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := New(Config{BlockTokens: 2, PendingBlocks: 10})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			x.Join(Source{Events: i > 0, Replay: i > 1, Snapshot: i > 2, CapacityBlocks: i * 4})
		}
		take := func() (b byte) {
			if len(data) > 0 {
				b, data = data[0], data[1:]
			}
			return b
		}
		now := time.Unix(0, 0)
		for len(data) > 0 {
			fuzzStep(x, Worker(take()%4), take, &now)
			if err := check(x); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func fuzzStep(x *Index, w Worker, take func() byte, now *time.Time) {
	switch action := take(); {
	case action < 150:
		b := Batch{Seq: uint64(take() % 16)}
		for range take() % 4 {
			b.Events = append(b.Events, fuzzEvent(take))
		}
		x.Apply(w, b)
	case action < 170:
		x.ReplayEnded(w)
	case action < 190:
		events := []Event{fuzzEvent(take), fuzzEvent(take)}
		x.Restore(w, uint64(take()%16), slices.Values(events))
	case action < 200:
		x.Reconnected(w)
	case action < 205:
		x.Restarted(w)
	case action < 230:
		x.Expect(w, namesFrom(uint64(take()%8), int(take()%8)), *now)
	default:
		*now = now.Add(time.Duration(take()) * time.Second)
		x.Expire(*now)
	}
}

func fuzzEvent(take func() byte) Event {
	e := Event{Kind: Kind(take() % 4), Tier: CacheTier(take() % 5), Parent: uint64(take() % 8),
		BlockTokens: int(take() % 4)}
	e.Keys = namesFrom(uint64(take()%8), int(take()%4))
	for range take() % 4 {
		e.Engine = append(e.Engine, uint64(take()%8))
	}
	for range take() % 12 {
		e.Tokens = append(e.Tokens, parley.Token(take()%3))
	}
	flags := take()
	e.First, e.Salted, e.Salt[0] = flags&1 != 0, flags&2 != 0, flags>>2&1
	return e
}

// each calls f with every block that a worker holds. f may remove it.
func (t *table) each(f func(b block)) {
	for n := nodeID(1); n < t.used; n++ {
		if b := t.block(n); b.set != none {
			f(b)
		}
	}
}
