package engine

import (
	"context"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/engine/sched"
)

// long returns a prompt of so many tokens that begins like no other seed's.
func long(seed, tokens int) (p []parley.Token) {
	for i := range tokens {
		p = append(p, parley.Token((seed+i*seed)%90))
	}
	return p
}

// TestTheDiskOutlivesTheEngine answers conversations, ends the engine, damages
// nothing, and finds them again in the next one, whose device holds nothing.
func TestTheDiskOutlivesTheEngine(t *testing.T) {
	cfg := sched.Config{Blocks: 20, StepTokens: 64, StepOutputs: 8, Seqs: 4, Cache: kv.Config{DiskBlocks: 100}}
	file := filepath.Join(t.TempDir(), "blocks")
	life := func(lossy int) (cached int, s Stats) {
		synctest.Test(t, func(t *testing.T) {
			e := newCounter(t, &counter{file: file, lossy: lossy}, cfg)
			for seed := range 5 {
				r := &parley.Request{Prompt: long(seed+2, 100), MaxTokens: 5}
				got, last, err := collect(t.Context(), e, r)
				if err != nil || !slices.Equal(got[0], expect(r.Prompt, len(got[0]))) {
					t.Errorf("conversation %d: %v, %v", seed, got, err)
				}
				cached += last.Usage.CachedTokens
				synctest.Wait() // idle: what is new is copied to the disk
			}
			s = e.Stats()
		})
		return cached, s
	}
	if cached, _ := life(0); cached != 0 {
		t.Errorf("%d tokens were cached in a new file", cached)
	}
	if cached, s := life(0); cached != 5*96 || s.Copied[kv.Disk][kv.Device].Blocks != 5*6 {
		t.Errorf("%d tokens of 480 were found again, %+v", cached, s.Copied)
	}
	if _, s := life(4); s.Damaged == 0 {
		t.Error("nothing was damaged")
	}
}

// TestLeavingAtEveryStep cancels a request that comes back from the tiers after
// each number of steps; the cleanup of newCounter sees that nothing is left.
func TestLeavingAtEveryStepWithTiers(t *testing.T) {
	cfg := sched.Config{Blocks: 12, StepTokens: 24, StepOutputs: 8, Seqs: 4,
		Cache: kv.Config{HostBlocks: 8, DiskBlocks: 40}}
	synctest.Test(t, func(t *testing.T) {
		for steps := range 14 {
			n := &counter{}
			e := newCounter(t, n, cfg)
			for seed := range 4 {
				ask(t, e, &parley.Request{Prompt: long(seed+2, 100), MaxTokens: 3})
				synctest.Wait()
			}
			ctx, cancel := context.WithCancel(context.Background())
			before := n.steps
			n.fault = func(*compute.Step) {
				if n.steps-before > steps {
					cancel()
				}
			}
			collect(ctx, e, &parley.Request{Prompt: long(2, 110), MaxTokens: 9})
			cancel()
			synctest.Wait() // the pass may not be over
			n.fault = nil
			r := &parley.Request{Prompt: long(2, 105), MaxTokens: 4}
			if got := ask(t, e, r); !slices.Equal(got, expect(r.Prompt, 4)) {
				t.Errorf("after leaving at step %d: %v, want %v", steps, got, expect(r.Prompt, 4))
			}
		}
	})
}

// TestAnAccountThatIsWrongIsRepaired exchanges two blocks of a sequence that
// is paused, behind the account's back: at the next idle moment that is
// noticed, reported and repaired, and the engine goes on.
func TestAnAccountThatIsWrongIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{room: 1024}, sched.Config{Blocks: 60, StepTokens: 64, StepOutputs: 8, Seqs: 4})
		first, stop := iter.Pull2(e.Generate(t.Context(),
			&parley.Request{Prompt: long(2, 40), MaxTokens: 600, Stop: parley.Stop{IgnoreEnd: true}}))
		first()
		next := func() {
			r := &parley.Request{Prompt: long(3, 40), MaxTokens: 3}
			if got := ask(t, e, r); !slices.Equal(got, expect(r.Prompt, 3)) {
				t.Errorf("got %v, want %v", got, expect(r.Prompt, 3))
			}
			synctest.Wait()
		}
		next()
		if got := e.Stats().Repairs; got != 0 {
			t.Fatalf("%d repairs of a sound account", got)
		}
		for _, c := range e.loop.owner {
			b := c.seq.Table.Blocks
			b[0], b[1] = b[1], b[0]
		}
		next()
		next()
		if got := e.Stats().Repairs; got != 1 {
			t.Errorf("%d repairs, want 1", got)
		}
		stop()
	})
}

// ask returns the answer to a request that has one choice.
func ask(t *testing.T, e *Engine, r *parley.Request) []parley.Token {
	t.Helper()
	got, _, err := collect(t.Context(), e, r)
	if err != nil {
		t.Error(err)
	}
	return got[0]
}

// TestDamageReachesEveryReader asks twice at the same time for a prompt of full blocks
// that lie on the disk, where the last one is damaged. Both requests copy it, so that its
// last token can be computed again. When the first copy fails, the second one is called
// off, and both compute the block.
func TestDamageReachesEveryReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sched.Config{Blocks: 16, StepTokens: 256, StepOutputs: 8, Seqs: 4, Cache: kv.Config{DiskBlocks: 40}}
		n := &counter{delay: time.Millisecond}
		e := newCounter(t, n, cfg)
		r := &parley.Request{Prompt: long(2, 2*compute.BlockTokens), MaxTokens: 5}
		want := askAll(t, e, []*parley.Request{r, r})
		ask(t, e, &parley.Request{Prompt: long(3, 15*compute.BlockTokens), MaxTokens: 5}) // evicts r's blocks
		var wg sync.WaitGroup
		wg.Go(func() { ask(t, e, &parley.Request{Prompt: long(4, 8), MaxTokens: 40}) })
		time.Sleep(n.delay / 2) // both come while a pass is computed
		n.lossy = 2             // the first block can be read
		if got := askAll(t, e, []*parley.Request{r, r}); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, before the damage %v", got, want)
		}
		wg.Wait()
		if e.Stats().Damaged == 0 {
			t.Error("nothing was damaged")
		}
	})
}
