package kv

import (
	"testing"
	"time"

	"parley"
)

// A benchLoad keeps 64 sequences running in a full pool: each step grows all
// of them by one token and seals what is full; the oldest makes room for a new
// one, with half of its prompt shared, every eighth step.
type benchLoad struct {
	c      *Cache
	now    time.Time
	tables [64]Table
	length [64]int
	hashes [64][]parley.BlockHash
	zeros  []parley.Token
	next   int32
	oldest int
	step   int
}

const benchPrompt = 2048

func newBenchLoad(b testing.TB, cfg Config) *benchLoad {
	c, err := NewCache(cfg)
	if err != nil {
		b.Fatal(err)
	}
	l := &benchLoad{c: c, now: time.Unix(0, 0), zeros: make([]parley.Token, benchPrompt), next: 1 << 20}
	for i := range l.tables {
		l.hashes[i] = make([]parley.BlockHash, benchPrompt/16)
		l.start(b, i)
	}
	for range 4000 {
		l.run(b)
	}
	return l
}

func (l *benchLoad) start(b testing.TB, i int) {
	for j := range l.hashes[i] {
		if l.hashes[i][j] = hashOf(l.next); j < len(l.hashes[i])/2 {
			l.hashes[i][j] = hashOf(int32(i%16*1000 + j))
		}
		l.next++
	}
	claim := Claim{Prompt: l.zeros, Hashes: l.hashes[i], Tenant: "t"}
	if _, ok := l.c.Admit(&l.tables[i], &claim, benchPrompt, l.now); !ok {
		b.Fatal("no room")
	}
	for j := l.tables[i].Sealed(); j < len(l.hashes[i]); j++ {
		l.seal(b, i, l.hashes[i][j])
	}
	l.length[i] = benchPrompt
}

func (l *benchLoad) seal(b testing.TB, i int, h parley.BlockHash) {
	if err := l.c.Seal(&l.tables[i], h, l.zeros[:16]); err != nil {
		b.Fatal(err)
	}
}

func (l *benchLoad) run(b testing.TB) {
	l.now = l.now.Add(20 * time.Millisecond)
	for i := range l.tables {
		l.length[i]++
		if !l.c.Grow(&l.tables[i], l.length[i], l.now) {
			b.Fatal("no room")
		}
		if l.length[i]%16 == 0 {
			l.next++
			l.seal(b, i, hashOf(l.next))
		}
	}
	if l.step++; l.step%8 == 0 {
		l.c.Release(&l.tables[l.oldest], l.now)
		l.start(b, l.oldest)
		l.oldest = (l.oldest + 1) % len(l.tables)
	}
	l.c.Moves()
}

func TestStepsDoNotAllocate(t *testing.T) {
	l := newBenchLoad(t, Config{Blocks: 1 << 14, HostBlocks: 1 << 12, Events: 1000})
	for range 4000 {
		l.run(t)
	}
	if n := testing.AllocsPerRun(1000, func() { l.run(t) }); n > 0 {
		t.Errorf("%.2f allocations in each step", n)
	}
}

// BenchmarkStep measures one engine step's share of this package; it must not
// allocate.
func BenchmarkStep(b *testing.B) {
	for _, row := range []struct {
		name string
		cfg  Config
	}{
		{"learned", Config{Blocks: 1 << 16}},
		{"lru", Config{Blocks: 1 << 16, Policy: LRU}},
		{"events", Config{Blocks: 1 << 16, Events: 10_000}},
		{"tiers", Config{Blocks: 1 << 14, HostBlocks: 1 << 16}},
	} {
		b.Run(row.name, func(b *testing.B) {
			l := newBenchLoad(b, row.cfg)
			b.ReportAllocs()
			for b.Loop() {
				l.run(b)
			}
		})
	}
}

// BenchmarkAdmit measures one admission of 2,048 tokens, half of them known,
// with everything that follows from it: sealing, eviction, release, learning.
func BenchmarkAdmit(b *testing.B) {
	l := newBenchLoad(b, Config{Blocks: 1 << 16})
	b.ReportAllocs()
	for b.Loop() {
		l.now = l.now.Add(20 * time.Millisecond)
		l.c.Release(&l.tables[0], l.now)
		l.start(b, 0)
	}
}

func BenchmarkStudy(b *testing.B) {
	l := newLearner()
	for b.Loop() {
		l.study()
	}
}
