package index

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"time"

	"parley"
	"parley/route/kvindex"
)

// Options say how much is measured. The zero value is the whole.
type Options struct {
	// Workers and Blocks of each; 0 means 100 and 20,000, which is 320,000 tokens.
	Workers, Blocks int
	// Rounds of each measurement that count; 0 means 200.
	Rounds int
}

func (o *Options) setDefaults() {
	for field, value := range map[*int]int{&o.Workers: 100, &o.Blocks: 20_000, &o.Rounds: 200} {
		if *field == 0 {
			*field = value
		}
	}
}

// blockTokens is the size of blocks, promptTokens that of the prompt that is
// looked up.
const (
	blockTokens  = 16
	promptTokens = 128 << 10
)

// Run measures everything. It ends early with ctx.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.setDefaults()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &Report{Started: time.Now(), Workers: o.Workers, Blocks: o.Blocks}
	for _, measure := range []func(*Options) ([]Result, error){ownNames, engineNames, lookups, hashing, memory, idle} {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		results, err := measure(&o)
		if err != nil {
			return r, err
		}
		r.Results = append(r.Results, results...)
		runtime.GC()
	}
	return r, nil
}

// newIndex returns an index with workers that publish events.
func newIndex(o *Options) (*kvindex.Index, error) {
	x, err := kvindex.New(kvindex.Config{Seed: 1, BlockTokens: blockTokens})
	for range o.Workers {
		if err == nil {
			_, err = x.Join(kvindex.Source{Events: true, CapacityBlocks: o.Blocks})
		}
	}
	return x, err
}

// speed is the result of rounds that did the given number of operations each.
func speed(name string, l lap, operations int, floor float64) Result {
	r := l.result(name, "M/s", 10, func(d time.Duration) float64 { return float64(operations) / d.Seconds() / 1e6 })
	if floor > 0 {
		r.Floor = 1e3 / floor
	}
	return r
}

// lapse is the result of rounds that took the given times, in a unit.
func lapse(name string, l lap, unit time.Duration, word string, bar float64) Result {
	r := l.result(name, word, bar, func(d time.Duration) float64 { return float64(d) / float64(unit) })
	r.AtMost = true
	return r
}

// result describes rounds in another unit than time.
func (l lap) result(name, unit string, bar float64, in func(time.Duration) float64) Result {
	return Result{
		Name:      name,
		Unit:      unit,
		Bar:       bar,
		Value:     in(l.calm[len(l.calm)/2]),
		Best:      in(l.calm[0]),
		Rounds:    len(l.calm),
		AllRounds: len(l.all),
		AllValue:  in(l.all[len(l.all)/2]),
	}
}

// line is what memory delivers at once.
type line [8]uint64

// lineTime is what one line of memory costs that is read at random among the given number of
// bytes while others are under way, in nanoseconds.
func lineTime(bytes int) float64 {
	lines := make([]line, 1<<(bits.Len(uint(bytes/64))-1))
	for i := range lines {
		lines[i][0] = uint64(i)
	}
	const reads = 1 << 20
	x, sum := rand.Uint64(), uint64(0)
	spent := rounds(9, timed(func() {
		for range reads {
			x = x*6364136223846793005 + 1442695040888963407
			sum += lines[(x>>24)&uint64(len(lines)-1)][0]
		}
	})).calm
	runtime.KeepAlive(sum)
	return float64(spent[len(spent)/2].Nanoseconds()) / reads
}

// tokensFrom makes n tokens that are other ones for other seeds.
func tokensFrom(to []parley.Token, seed uint64) []parley.Token {
	for i := range to {
		seed = seed*6364136223846793005 + 1442695040888963407
		to[i] = parley.Token(seed >> 47) // below 131,072
	}
	return to
}

func held(x *kvindex.Index, o *Options) error {
	for w := range o.Workers {
		if s := x.Stats(kvindex.Worker(w)); s.Held != o.Blocks || s.Unplaced > 0 || s.State != kvindex.Exact {
			return fmt.Errorf("kvbench: worker %d is %+v, not exact with %d blocks", w, s, o.Blocks)
		}
	}
	return nil
}
