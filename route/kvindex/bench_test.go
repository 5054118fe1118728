package kvindex

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"parley"
)

const (
	benchWorkers = 100
	benchBlocks  = 20_000 // of each worker: 320,000 tokens of context
)

// nameOf makes the name of a block from a number.
func nameOf(n uint64) parley.BlockKey { return parley.BlockKey(mix(n)) }

func namesFrom(n uint64, blocks int) []parley.BlockKey {
	names := make([]parley.BlockKey, blocks)
	for i := range names {
		names[i] = nameOf(n + uint64(i))
	}
	return names
}

func newBench(b testing.TB, workers int, s Source) *Index {
	x, err := New(Config{Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	for range workers {
		if _, err := x.Join(s); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

// fill gives each worker its own blocks, and all of them a shared prompt.
func fill(x *Index, shared []parley.BlockKey) {
	for w := range Worker(benchWorkers) {
		own := namesFrom(uint64(w+1)<<32, benchBlocks)
		x.Apply(w, Batch{Events: []Event{{Keys: shared}, {Keys: own}}})
	}
}

// BenchmarkLookup128K looks up a prompt of 128K tokens that was hashed before,
// among 100 workers that hold 20,000 other blocks each.
func BenchmarkLookup128K(b *testing.B) {
	prompt := namesFrom(7<<48, 8192)
	for _, row := range []struct {
		name string
		held func(w int) int // blocks of the prompt that a worker holds
	}{
		{"all", func(int) int { return len(prompt) }},
		{"one", func(w int) int { return len(prompt) * max(0, 1-w) }},
		{"staircase", func(w int) int { return len(prompt) * (w + 1) / benchWorkers }},
		{"none", func(int) int { return 0 }},
	} {
		b.Run(row.name, func(b *testing.B) {
			x := newBench(b, benchWorkers, Source{Events: true})
			fill(x, nil)
			for w := range benchWorkers {
				x.Apply(Worker(w), Batch{Seq: 1, Events: []Event{{Keys: prompt[:row.held(w)]}}})
			}
			var m Matches
			b.ReportAllocs()
			for b.Loop() {
				x.Lookup(prompt, &m)
			}
			if got := m.Of(benchWorkers - 1).Blocks; int(got) != row.held(benchWorkers-1) {
				b.Fatalf("the last worker holds %d blocks", got)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "us/lookup")
		})
	}
}

// BenchmarkEvents measures blocks stored and removed by workers that are full:
// each batch stores 32 blocks and removes as many.
func BenchmarkEvents(b *testing.B) {
	const size = 32
	b.Run("ours", func(b *testing.B) {
		x := newBench(b, benchWorkers, Source{Events: true})
		fill(x, nil)
		batches := make([]Batch, benchWorkers)
		names := make([]parley.BlockKey, 2*benchWorkers*size)
		fresh, turn := uint64(0), 0
		b.ReportAllocs()
		for b.Loop() {
			if turn == 0 { // write down the next batch of every worker
				b.StopTimer()
				for w := range batches {
					stored, removed := names[2*w*size:][:size], names[(2*w+1)*size:][:size]
					for i := range size {
						stored[i] = nameOf(uint64(w+1)<<32 + benchBlocks + fresh + uint64(i))
						removed[i] = nameOf(uint64(w+1)<<32 + fresh + uint64(i))
					}
					batches[w] = Batch{Seq: fresh/size + 1,
						Events: []Event{{Keys: stored}, {Kind: Removed, Keys: removed}}}
				}
				fresh += size
				b.StartTimer()
			}
			x.Apply(Worker(turn), batches[turn])
			turn = (turn + 1) % benchWorkers
		}
		b.ReportMetric(2*size*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
		if held := x.Stats(3).Held; held != benchBlocks {
			b.Fatalf("a worker holds %d blocks", held)
		}
	})
	b.Run("engine", func(b *testing.B) {
		x := newBench(b, benchWorkers, Source{Events: true})
		tokens := make([]parley.Token, 16*size)
		engine := make([]uint64, size)
		removed := make([]uint64, size)
		count, seqs := make([]uint64, benchWorkers), make([]uint64, benchWorkers)
		turn := 0
		apply := func(full bool) {
			w := uint64(turn)
			for i := range size {
				engine[i] = mix(w<<40 + count[turn] + uint64(i))
				removed[i] = mix(w<<40 + count[turn] + uint64(i) - benchBlocks)
				tokens[16*i] = parley.Token(count[turn])
			}
			tokens[1] = parley.Token(w)
			events := [2]Event{{Engine: engine, First: true, Tokens: tokens, BlockTokens: 16},
				{Kind: Removed, Engine: removed}}
			n := 1
			if full {
				n = 2
			}
			x.Apply(Worker(turn), Batch{Seq: seqs[turn], Events: events[:n]})
			seqs[turn]++
			count[turn] += size
			turn = (turn + 1) % benchWorkers
		}
		for range benchWorkers * benchBlocks / size {
			apply(false)
		}
		b.ReportAllocs()
		for b.Loop() {
			apply(true)
		}
		b.ReportMetric(2*size*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mblocks/s")
	})
}

// BenchmarkMemory measures what a block costs, held by one worker each.
func BenchmarkMemory(b *testing.B) {
	measure := func(b *testing.B, fill func(x *Index) int) {
		var before, after runtime.MemStats
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			x := newBench(b, benchWorkers, Source{Events: true})
			blocks := fill(x)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(blocks), "B/block")
			runtime.KeepAlive(x)
		}
	}
	b.Run("ours", func(b *testing.B) {
		measure(b, func(x *Index) int { fill(x, nil); return benchWorkers * benchBlocks })
	})
	b.Run("engine", func(b *testing.B) {
		tokens := make([]parley.Token, 16*benchBlocks)
		engine := make([]uint64, benchBlocks)
		measure(b, func(x *Index) int {
			for w := range benchWorkers {
				for i := range engine {
					engine[i] = mix(uint64(w)<<32 + uint64(i))
				}
				tokens[0] = parley.Token(w)
				x.Apply(Worker(w),
					Batch{Events: []Event{{Engine: engine, First: true, Tokens: tokens, BlockTokens: 16}}})
			}
			return benchWorkers * benchBlocks
		})
	})
	b.Run("expected", func(b *testing.B) {
		measure(b, func(x *Index) int {
			for w := range Worker(benchWorkers) {
				x.Expect(w, namesFrom(uint64(w+1)<<32, benchBlocks), time.Unix(0, 0))
			}
			return benchWorkers * benchBlocks
		})
	})
}

// BenchmarkIdle is what 100 workers cost when nothing happens, for each time
// that the edge looks.
func BenchmarkIdle(b *testing.B) {
	x := newBench(b, benchWorkers, Source{Events: true})
	fill(x, nil)
	now := time.Unix(0, 0)
	for w := range Worker(benchWorkers) {
		x.Expect(w, namesFrom(9<<48, 10), now)
	}
	b.ReportAllocs()
	for b.Loop() {
		x.Expire(now)
	}
}

// BenchmarkDrop is the pause when one worker of 100 goes.
func BenchmarkDrop(b *testing.B) {
	x := newBench(b, benchWorkers, Source{Events: true})
	fill(x, nil)
	own := namesFrom(1<<32, benchBlocks)
	seq := uint64(1)
	for b.Loop() {
		x.Apply(0, Batch{Seq: seq, Events: []Event{{Kind: Cleared}}})
		b.StopTimer()
		x.Apply(0, Batch{Seq: seq + 1, Events: []Event{{Keys: own}}})
		seq += 2
		b.StartTimer()
	}
}

// BenchmarkFleet looks up a prompt of 2,048 tokens in fleets of several sizes. Eight
// workers hold more and more of it, and each holds 500 blocks of its own. It reports
// what a lookup and a stored block take, and the memory of the index for each block.
func BenchmarkFleet(b *testing.B) {
	const own = 512
	prompt := namesFrom(7<<48, 128)
	for _, n := range []int{16, 64, 1024, WorkersMax} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			before := heapInUse()
			x := newBench(b, n, Source{Events: true})
			begun := time.Now()
			for w := range Worker(n) {
				x.Apply(w, Batch{Events: []Event{{Keys: namesFrom(uint64(w+1)<<32, own)}}})
			}
			stored := time.Since(begun)
			for i := range 8 {
				x.Apply(Worker(i*n/8), Batch{Seq: 1, Events: []Event{{Keys: prompt[:16*(i+1)]}}})
			}
			memory := heapInUse() - before
			var m Matches
			for b.Loop() {
				x.Lookup(prompt, &m)
			}
			if got := m.Of(Worker(7 * n / 8)).Blocks; got != 128 {
				b.Fatalf("the last of the eight holds %d blocks", got)
			}
			b.ReportMetric(float64(memory)/float64(n*own), "B/block")
			b.ReportMetric(float64(stored.Nanoseconds())/float64(n*own), "ns/stored")
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
