package index

import (
	"slices"
	"time"

	"parley"
	"parley/route/kvindex"
)

// eventBlocks is how many blocks an event stores: a prompt of 512 tokens.
const eventBlocks = 32

// A fleet is workers whose memory is full: each batch stores the blocks of a
// prompt and evicts those of the oldest.
type fleet struct {
	o     *Options
	index *kvindex.Index
	batch kvindex.Batch // the one that comes next, just read
	fresh int           // batches that came of each worker
	fill  func(w, n int, b *kvindex.Batch)
}

// newFleet fills the memory of all workers.
func newFleet(o *Options, fill func(w, n int, b *kvindex.Batch)) (*fleet, error) {
	x, err := newIndex(o)
	if err != nil {
		return nil, err
	}
	f := &fleet{o: o, index: x, fill: fill}
	for f.fresh < f.full() {
		f.round()
	}
	return f, nil
}

// full is how many batches fill a worker's memory.
func (f *fleet) full() int { return f.o.Blocks / eventBlocks }

// round applies one batch of each worker, and returns what that took without the
// making of batches.
func (f *fleet) round() (spent time.Duration) {
	for w := range f.o.Workers {
		f.fill(w, f.fresh, &f.batch)
		f.batch.Seq = uint64(f.fresh)
		began := time.Now()
		f.index.Apply(kvindex.Worker(w), f.batch)
		spent += time.Since(began)
	}
	f.fresh++
	return spent
}

// measure returns how fast blocks were stored and removed in the given number of rounds.
func (f *fleet) measure(name string, floor float64) Result {
	return speed(name, rounds(f.o.Rounds, f.round), 2*eventBlocks*f.o.Workers, floor)
}

// ownNames measures events of workers that use our names.
func ownNames(o *Options) ([]Result, error) {
	tokens := make([]parley.Token, eventBlocks*blockTokens)
	keys := func(to []parley.BlockKey, w, n int) []parley.BlockKey {
		return parley.AppendBlockKeys(to[:0], 0, parley.Salt{1}, tokensFrom(tokens, uint64(w)<<32|uint64(n)),
			blockTokens)
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
	return []Result{f.measure("blocks of events, our names", lineTime(o.Workers*o.Blocks*32))}, held(f.index, o)
}

// engineNames measures events of workers with names of their own, as vLLM sends
// them: with the tokens of stored blocks.
func engineNames(o *Options) ([]Result, error) {
	full := o.Blocks / eventBlocks
	f, err := newFleet(o, func(w, n int, b *kvindex.Batch) {
		if b.Events == nil {
			b.Events = make([]kvindex.Event, 1, 2)
			b.Events[0] = kvindex.Event{
				First:       true,
				BlockTokens: blockTokens,
				Salted:      true,
				Salt:        parley.Salt{1},
				Engine:      make([]uint64, eventBlocks),
				Tokens:      make([]parley.Token, eventBlocks*blockTokens),
			}
		}
		tokensFrom(b.Events[0].Tokens, uint64(w)<<32|uint64(n))
		for i := range eventBlocks {
			b.Events[0].Engine[i] = engineName(w, n, i)
		}
		if n >= full {
			b.Events = b.Events[:2]
			e := &b.Events[1]
			e.Kind, e.Engine = kvindex.Removed, e.Engine[:0]
			for i := range eventBlocks { // from the end
				e.Engine = append(e.Engine, engineName(w, n-full, eventBlocks-1-i))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return []Result{f.measure("blocks of events, names of the engine", 2*lineTime(o.Workers*o.Blocks*48))},
		held(f.index, o)
}

// engineName is what an engine calls block i of prompt n of worker w.
func engineName(w, n, i int) uint64 {
	x := (uint64(w)<<48 | uint64(n)<<16 | uint64(i) + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>31) * 0xbf58476d1ce4e5b9
	return x ^ x>>29
}
