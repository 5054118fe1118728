package kvbench

import (
	"slices"

	"parley"
	"parley/route/kvindex"
)

// eventBlocks is how many blocks an event stores: a prompt of 512 tokens.
const eventBlocks = 32

// A fleet is workers whose memory is full: each batch stores the blocks of a
// prompt and evicts those of the oldest.
type fleet struct {
	o       *Options
	index   *kvindex.Index
	batches [][]kvindex.Batch // of each worker, the next ones
	fresh   int               // batches that were prepared for each worker
	fill    func(w, n int, b *kvindex.Batch)
}

// perRound is how many batches of each worker are a round.
const perRound = 4

// newFleet fills the memory of all workers.
func newFleet(o *Options, fill func(w, n int, b *kvindex.Batch)) (*fleet, error) {
	x, err := newIndex(o)
	if err != nil {
		return nil, err
	}
	f := &fleet{o: o, index: x, fill: fill, batches: make([][]kvindex.Batch, o.Workers)}
	for w := range f.batches {
		f.batches[w] = make([]kvindex.Batch, perRound)
	}
	for f.fresh*eventBlocks < o.Blocks {
		f.prepare()
		f.work()
	}
	return f, nil
}

func (f *fleet) prepare() {
	for w, batches := range f.batches {
		for i := range batches {
			f.fill(w, f.fresh+i, &batches[i])
			batches[i].Seq = uint64(f.fresh + i)
		}
	}
	f.fresh += perRound
}

// work applies one batch of each worker after the other, as they come.
func (f *fleet) work() {
	for i := range perRound {
		for w := range f.batches {
			f.index.Apply(kvindex.Worker(w), f.batches[w][i])
		}
	}
}

// operations is how many blocks a round stores and removes.
func (f *fleet) operations() int { return 2 * eventBlocks * perRound * f.o.Workers }

// full is how many batches fill a worker's memory.
func (f *fleet) full() int { return f.o.Blocks / eventBlocks }

// ownNames measures events of workers that use our names.
func ownNames(o *Options) ([]Result, error) {
	tokens := make([]parley.Token, eventBlocks*blockTokens)
	keys := func(to []parley.BlockKey, w, n int) []parley.BlockKey {
		return parley.AppendBlockKeys(to[:0], 0, parley.Salt{1}, tokensFrom(tokens, uint64(w)<<32|uint64(n)), blockTokens)
	}
	full := o.Blocks / eventBlocks
	f, err := newFleet(o, func(w, n int, b *kvindex.Batch) {
		if b.Events == nil {
			b.Events = make([]kvindex.Event, 1, 2)
		}
		b.Events[0].Keys = keys(b.Events[0].Keys, w, n)
		if n >= full {
			b.Events = b.Events[:2]
			b.Events[1].Kind = kvindex.Removed
			b.Events[1].Keys = keys(b.Events[1].Keys, w, n-full)
			slices.Reverse(b.Events[1].Keys) // engines evict from the end
		}
	})
	if err != nil {
		return nil, err
	}
	spent := rounds(o.Rounds, f.prepare, f.work)
	floor := lineTime(o.Workers * o.Blocks * 32)
	return []Result{speed("blocks of events, our names", spent, f.operations(), floor)}, held(f.index, o)
}

// engineNames measures events of workers with names of their own, as vLLM sends
// them: a prompt is stored by one event, and each evicted block has its own.
func engineNames(o *Options) ([]Result, error) {
	full := o.Blocks / eventBlocks
	f, err := newFleet(o, func(w, n int, b *kvindex.Batch) {
		if b.Events == nil {
			b.Events = make([]kvindex.Event, 1, 1+eventBlocks)
			b.Events[0] = kvindex.Event{First: true, BlockTokens: blockTokens, Salted: true, Salt: parley.Salt{1},
				Engine: make([]uint64, eventBlocks), Tokens: make([]parley.Token, eventBlocks*blockTokens)}
		}
		tokensFrom(b.Events[0].Tokens, uint64(w)<<32|uint64(n))
		for i := range eventBlocks {
			b.Events[0].Engine[i] = engineName(w, n, i)
		}
		if n >= full {
			b.Events = b.Events[:1+eventBlocks]
			for i := range eventBlocks { // from the end
				e := &b.Events[eventBlocks-i]
				e.Kind, e.Engine = kvindex.Removed, append(e.Engine[:0], engineName(w, n-full, i))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	spent := rounds(o.Rounds, f.prepare, f.work)
	floor := 2 * lineTime(o.Workers*o.Blocks*64)
	return []Result{speed("blocks of events, names of the engine", spent, f.operations(), floor)}, held(f.index, o)
}

// engineName is what an engine calls block i of prompt n of worker w.
func engineName(w, n, i int) uint64 {
	x := (uint64(w)<<48 | uint64(n)<<16 | uint64(i) + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>31) * 0xbf58476d1ce4e5b9
	return x ^ x>>29
}
