package index

import (
	"fmt"
	"runtime"
	"time"

	"parley"
	"parley/route/kvindex"
)

// prompt is one of 128K tokens.
func prompt() []parley.Token { return tokensFrom(make([]parley.Token, promptTokens), 7) }

// lookups measures the question for a long prompt: all workers hold all of it,
// or each holds more of it than the one before.
func lookups(o *Options) (results []Result, err error) {
	keys := parley.AppendBlockKeys(nil, 0, parley.Salt{1}, prompt(), blockTokens)
	for _, row := range []struct {
		name string
		held func(w int) int
	}{
		{"lookup of 128K tokens that all workers hold", func(int) int { return len(keys) }},
		{"lookup of 128K tokens of which each holds another part", func(w int) int {
			return len(keys) * (w + 1) / o.Workers
		}},
	} {
		x, err := newIndex(o)
		if err != nil {
			return nil, err
		}
		for w := range o.Workers {
			own := tokensFrom(make([]parley.Token, o.Blocks*blockTokens), uint64(w)<<32)
			x.Apply(kvindex.Worker(w), kvindex.Batch{Events: []kvindex.Event{
				{Keys: parley.AppendBlockKeys(nil, 0, parley.Salt{1}, own, blockTokens)}, {Keys: keys[:row.held(w)]},
			}})
		}
		var m kvindex.Matches
		spent := rounds(o.Rounds, timed(func() { x.Lookup(keys, &m) }))
		for w := range o.Workers {
			if got := m.Of(kvindex.Worker(w)).Blocks; int(got) != row.held(w) {
				return nil, fmt.Errorf("kvbench: worker %d holds %d blocks of the prompt, not %d", w, got, row.held(w))
			}
		}
		results = append(results, lapse(row.name, spent, time.Microsecond, "us", 200))
	}
	return results, nil
}

// hashing measures what comes before a lookup.
func hashing(o *Options) ([]Result, error) {
	tokens := prompt()
	var keys []parley.BlockKey
	spent := rounds(o.Rounds, timed(func() {
		keys = parley.AppendBlockKeys(keys[:0], 0, parley.Salt{1}, tokens, blockTokens)
	}))
	return []Result{lapse("hashing of 128K tokens", spent, time.Millisecond, "ms", 1.5)}, nil
}

// memory measures what a block costs that one worker holds.
func memory(o *Options) ([]Result, error) {
	kinds := []struct {
		name string
		bar  float64
		fill func(x *kvindex.Index, w kvindex.Worker, tokens []parley.Token)
	}{
		{"memory of a block, our names", 40, func(x *kvindex.Index, w kvindex.Worker, tokens []parley.Token) {
			x.Apply(w,
				kvindex.Batch{Events: []kvindex.Event{{Keys: parley.AppendBlockKeys(nil, 0, parley.Salt{1}, tokens,
					blockTokens)}}})
		}},
		{"memory of a block, names of the engine", 100,
			func(x *kvindex.Index, w kvindex.Worker, tokens []parley.Token) {
				e := kvindex.Event{First: true, BlockTokens: blockTokens, Tokens: tokens,
					Engine: make([]uint64, o.Blocks)}
				for i := range e.Engine {
					e.Engine[i] = engineName(int(w), 0, i)
				}
				x.Apply(w, kvindex.Batch{Events: []kvindex.Event{e}})
			}},
		{"memory of a block, only expected", 120, func(x *kvindex.Index, w kvindex.Worker, tokens []parley.Token) {
			x.Expect(w, parley.AppendBlockKeys(nil, 0, parley.Salt{1}, tokens, blockTokens), time.Unix(0, 0))
		}},
	}
	var results []Result
	for _, kind := range kinds {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		x, err := newIndex(o)
		if err != nil {
			return nil, err
		}
		for w := range kvindex.Worker(o.Workers) {
			kind.fill(x, w, tokensFrom(make([]parley.Token, o.Blocks*blockTokens), uint64(w)<<32))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		bytes := float64(after.HeapAlloc-before.HeapAlloc) / float64(x.Blocks())
		results = append(results, Result{
			Name:   kind.name,
			Value:  bytes,
			Best:   bytes,
			Unit:   "B",
			Bar:    kind.bar,
			AtMost: true,
		})
	}
	return results, nil
}

// idle measures what the index costs each time that its owner looks whether
// something has become too old, with a prompt of each worker that has not.
func idle(o *Options) ([]Result, error) {
	x, err := newIndex(o)
	if err != nil {
		return nil, err
	}
	keys := parley.AppendBlockKeys(nil, 0, parley.Salt{1}, prompt(), blockTokens)
	now := time.Unix(0, 0)
	for w := range kvindex.Worker(o.Workers) {
		x.Expect(w, keys[:100], now)
	}
	const looks = 1000
	spent := rounds(o.Rounds, timed(func() {
		for range looks {
			x.Expire(now)
		}
	}))
	return []Result{lapse("a look when nothing happens", spent, looks*time.Nanosecond, "ns", 1000)}, nil
}
