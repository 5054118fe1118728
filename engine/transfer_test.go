package engine

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
	"parley/engine/sched"
)

// carry brings the blocks that to misses of r from one engine to another, up to batch bytes at
// a time, and returns how many came.
func carry(t *testing.T, from, to *Engine, r *parley.Request, batch int) (moved int) {
	t.Helper()
	in, err := to.OpenIntake(t.Context(), r, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if in == nil {
		return 0
	}
	defer in.Close()
	names := in.Missing()
	for bytes := 0; moved < len(names); moved = bytes / compute.BlockTokens {
		room := make([]byte, batch)
		n, err := from.ReadBlocks(t.Context(), names[moved:], bytes%compute.BlockTokens, room)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		if err := in.Put(t.Context(), room[:n/2], room[n/2:n]); errors.Is(err, ErrNoRoom) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		bytes += n
	}
	return moved
}

// TestBlocksMoveBetweenEngines computes prompts on one engine and has another take their
// blocks over: it computes the rest alone, and the same tokens follow. The counter's next
// token depends on every token in the pool, and the cleanup of newCounter checks the
// account of blocks on both sides.
func TestBlocksMoveBetweenEngines(t *testing.T) {
	small := sched.Config{Blocks: 16, StepTokens: 64, StepOutputs: 8, Seqs: 4}
	tiers := small
	tiers.Cache = kv.Config{HostBlocks: 8, DiskBlocks: 64}
	large := sched.Config{Blocks: 80, StepTokens: 64, StepOutputs: 8, Seqs: 4}
	for name, test := range map[string]struct {
		from, to sched.Config
		ahead    bool
		least    int // blocks that must have come over all prompts
	}{
		"plain":      {from: large, to: large, least: 5 * 6},
		"from tiers": {from: tiers, to: large, least: 5 * 6},
		"into tiers": {from: large, to: tiers, least: 5 * 6},
		"small":      {from: small, to: small, least: 6},
		"ahead":      {from: large, to: large, ahead: true, least: 5 * 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from := newCounter(t, &counter{ahead: test.ahead}, test.from)
				to := newCounter(t, &counter{ahead: test.ahead}, test.to)
				request := func(seed int) *parley.Request {
					return &parley.Request{Prompt: long(seed+2, 100), MaxTokens: 5, Salt: parley.Salt{byte(seed % 2)}}
				}
				for seed := range 5 {
					ask(t, from, request(seed))
				}
				moved := 0
				for seed := range 5 {
					r := request(seed)
					came := carry(t, from, to, r, 5+9*seed)
					got, last, err := collect(t.Context(), to, r)
					if err != nil || !slices.Equal(got[0], expect(r.Prompt, len(got[0]))) {
						t.Errorf("prompt %d: %v, %v", seed, got, err)
					}
					if want := came * compute.BlockTokens; last.Usage.CachedTokens != want {
						t.Errorf("prompt %d: %d tokens were cached, %d came", seed, last.Usage.CachedTokens, want)
					}
					moved += came
				}
				if moved < test.least {
					t.Errorf("%d blocks came, want at least %d", moved, test.least)
				}
			})
		})
	}
}

// TestTheAccountIsCheckedAfterTransfers reads and takes blocks: the account of all blocks, which
// takes milliseconds, is checked when an intake has ended, not after every batch.
func TestTheAccountIsCheckedAfterTransfers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sched.Config{Blocks: 80, StepTokens: 64, StepOutputs: 8, Seqs: 4}
		from, to := newCounter(t, &counter{}, cfg), newCounter(t, &counter{}, cfg)
		r := &parley.Request{Prompt: long(3, 100), MaxTokens: 5}
		ask(t, from, r)
		in, err := to.OpenIntake(t.Context(), r, 100)
		if err != nil || in == nil {
			t.Fatal(in, err)
		}
		worked := func(e *Engine, do func(*loop)) (worked bool) {
			if err := e.visit(t.Context(), func(l *loop) {
				l.cache.worked = false
				do(l)
				worked = l.cache.worked
			}); err != nil {
				t.Fatal(err)
			}
			return worked
		}
		room, names := make([]byte, 6*compute.BlockTokens), in.Missing()
		if worked(from, func(l *loop) {
			if n := l.readBlocks(names, 0, room); n != len(room) {
				t.Errorf("%d of %d bytes were read", n, len(room))
			}
		}) {
			t.Error("reading has the account checked")
		}
		if worked(to, func(l *loop) {
			if !l.putBlocks(in, room, l.cfg.Now()) {
				t.Error("the blocks were not taken")
			}
		}) {
			t.Error("every batch has the account checked")
		}
		if !worked(to, in.end) {
			t.Error("the account is not checked when an intake has ended")
		}
	})
}

// TestBlocksThatComeHoldUpPassesLittle has writing a block take a millisecond, and all take three between two passes:
// the others must wait. While nothing is computed all are taken at once.
func TestBlocksThatComeHoldUpPassesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{}, sched.Config{Blocks: 80, StepTokens: 64, StepOutputs: 8, Seqs: 4})
		r := &parley.Request{Prompt: long(3, 200), MaxTokens: 5}
		in, err := e.OpenIntake(t.Context(), r, 200)
		if err != nil || in == nil || len(in.Missing()) != 12 {
			t.Fatal(in, err)
		}
		defer in.Close()
		write := e.cfg.Content.Write
		var data [][]byte
		for i := range 12 {
			block := make([]byte, compute.BlockTokens)
			for k := range block {
				block[k] = byte(r.Prompt[i*compute.BlockTokens+k])
			}
			data = append(data, block)
		}
		err = e.visit(t.Context(), func(l *loop) {
			l.cfg.Content.Write = func(slot int32, at int, src []byte) {
				time.Sleep(time.Millisecond)
				write(slot, at, src)
			}
			for _, wait := range []int{9, 8, 7} { // after the first time, one each
				l.cache.arrivals.most = 3 * time.Millisecond
				var ok bool
				if data, ok = l.putSome(in, data); !ok || len(data) != wait {
					t.Errorf("%d blocks wait, want %d: %t", len(data), wait, ok)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := in.Put(t.Context(), data...); err != nil || time.Since(began) != 7*time.Millisecond {
			t.Errorf("the other blocks were taken after %v: %v", time.Since(began), err)
		}
		got, last, err := collect(t.Context(), e, r)
		if err != nil || !slices.Equal(got[0], expect(r.Prompt, 5)) || last.Usage.CachedTokens != 192 {
			t.Errorf("%v, %+v, %v", got, last.Usage, err)
		}
	})
}

// TestAnotherSaltFindsNothing asks for the same tokens under another salt.
func TestAnotherSaltFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sched.Config{Blocks: 80, StepTokens: 64, StepOutputs: 8, Seqs: 4}
		from, to := newCounter(t, &counter{}, cfg), newCounter(t, &counter{}, cfg)
		r := &parley.Request{Prompt: long(3, 100), MaxTokens: 5, Salt: parley.Salt{1}, PublicTokens: 40}
		ask(t, from, r)
		other := *r
		other.Salt = parley.Salt{2}
		if moved := carry(t, from, to, &other, 4*compute.BlockTokens); moved != 2 {
			t.Errorf("%d blocks came under another salt, want the 2 public ones", moved)
		}
	})
}

// TestAnAnswerMovesWithItsBlocks resumes an answer on an engine that has its blocks, also
// those of what was said: it computes only what is not in a full block.
func TestAnAnswerMovesWithItsBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sched.Config{Blocks: 80, StepTokens: 64, StepOutputs: 8, Seqs: 4}
		n := &counter{}
		from, to := newCounter(t, &counter{}, cfg), newCounter(t, n, cfg)
		r := &parley.Request{Prompt: long(3, 100), MaxTokens: 60, Stop: parley.Stop{IgnoreEnd: true}}
		whole := ask(t, from, r)
		rest := *r
		rest.Resume = []parley.Partial{{Tokens: whole[:40:40]}}
		if moved := carry(t, from, to, &rest, 4*compute.BlockTokens); moved != 139/compute.BlockTokens {
			t.Errorf("%d blocks came, want %d", moved, 139/compute.BlockTokens)
		}
		computed := 0
		n.fault = func(s *compute.Step) { computed += len(s.Tokens) }
		if got := ask(t, to, &rest); !slices.Equal(got, whole[40:]) {
			t.Errorf("%v followed, want %v", got, whole[40:])
		}
		// The end of the prompt, what was said after the last full block, and the answer.
		if most := 4 + 140%compute.BlockTokens + 20; computed > most {
			t.Errorf("%d tokens were computed, want at most %d", computed, most)
		}
	})
}

// TestAnIntakeGivesWay holds most of the pool with an intake, and asks for more than is
// left: the request is answered, and the intake ends.
func TestAnIntakeGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{}, sched.Config{Blocks: 16, StepTokens: 64, StepOutputs: 8, Seqs: 4})
		in, err := e.OpenIntake(t.Context(), &parley.Request{Prompt: long(2, 200)}, 200)
		if err != nil || in == nil || len(in.Missing()) != 12 {
			t.Fatal(in, err)
		}
		defer in.Close()
		data := make([]byte, 12*compute.BlockTokens)
		for i := range data {
			data[i] = byte(long(2, 200)[i])
		}
		if err := in.Put(t.Context(), data[:10*compute.BlockTokens]); err != nil {
			t.Fatal(err)
		}
		r := &parley.Request{Prompt: long(5, 150), MaxTokens: 20, Stop: parley.Stop{IgnoreEnd: true}}
		if got := ask(t, e, r); !slices.Equal(got, expect(r.Prompt, 20)) {
			t.Errorf("got %v", got)
		}
		if err := in.Put(t.Context(), data[10*compute.BlockTokens:]); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%v, want %v", err, ErrNoRoom)
		}
	})
}

// TestIntakesAreLeft leaves an intake after each number of blocks: by closing it, by a
// context that ends, and by closing the engine.
func TestIntakesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := sched.Config{Blocks: 20, StepTokens: 64, StepOutputs: 8, Seqs: 4, Cache: kv.Config{HostBlocks: 6}}
		r := &parley.Request{Prompt: long(3, 150), MaxTokens: 3}
		data := make([]byte, 150)
		for i := range data {
			data[i] = byte(r.Prompt[i])
		}
		for blocks := range 10 {
			for _, way := range []string{"close", "cancel", "end"} {
				e := newCounter(t, &counter{}, cfg)
				ask(t, e, &parley.Request{Prompt: long(9, 200), MaxTokens: 3}) // what must be evicted
				ctx, cancel := context.WithCancel(t.Context())
				in, err := e.OpenIntake(ctx, r, 150)
				if err != nil || in == nil {
					t.Fatal(in, err)
				}
				if err := in.Put(ctx, data[:blocks*compute.BlockTokens]); err != nil {
					t.Fatal(err)
				}
				if way == "end" {
					cancel()
					continue // newCounter's cleanup closes the engine
				}
				if way == "cancel" {
					cancel()
					_ = in.Put(ctx, data[blocks*compute.BlockTokens:])
				}
				in.Close()
				cancel()
				if got := ask(t, e, r); !slices.Equal(got, expect(r.Prompt, 3)) {
					t.Errorf("%s after %d blocks: %v, want %v", way, blocks, got, expect(r.Prompt, 3))
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		e := newCounter(t, &counter{}, cfg)
		if _, err := e.OpenIntake(ctx, r, 150); err != nil && parley.CodeOf(err) != parley.Cancelled {
			t.Error(err)
		}
	})
}

// TestIntakesEndWithTheirLoop has the clock break while an intake is opened, while blocks come, and while it is
// closed: the loop begins anew, the intake has ended with the old one, and all blocks are there for the next request.
func TestIntakesEndWithTheirLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool // the next reading fails
		e := newCounter(t, &counter{clock: func() time.Time {
			if broken.CompareAndSwap(true, false) {
				panic("no time")
			}
			return time.Now()
		}}, sched.Config{Blocks: 16, StepTokens: 64, StepOutputs: 8, Seqs: 4})
		idle := func() { synctest.Wait() } // only a visit reads the clock then
		r := &parley.Request{Prompt: long(2, 200)}
		idle()
		broken.Store(true)
		if in, err := e.OpenIntake(t.Context(), r, 200); !errors.Is(err, errLookFailed) || in != nil {
			t.Errorf("an intake whose opening fails: %v, %v", in, err)
		}
		data := make([]byte, compute.BlockTokens)
		for _, way := range []string{"filled", "closed"} {
			in, err := e.OpenIntake(t.Context(), r, 200)
			if err != nil || in == nil {
				t.Fatal(in, err)
			}
			idle()
			broken.Store(true)
			if way == "filled" {
				if err := in.Put(t.Context(), data); !errors.Is(err, errLookFailed) {
					t.Errorf("blocks that fail to come: %v", err)
				}
				if err := in.Put(t.Context(), data); !errors.Is(err, ErrNoRoom) {
					t.Errorf("an intake of a loop that has ended: %v", err)
				}
			}
			in.Close()
			idle()
			if broken.Load() || e.Stats().Pool.InUse != 0 {
				t.Errorf("%s: blocks are still in use: %+v", way, e.Stats().Pool)
			}
			q := &parley.Request{Prompt: long(3, 200), MaxTokens: 20, Stop: parley.Stop{IgnoreEnd: true}}
			if got := ask(t, e, q); !slices.Equal(got, expect(q.Prompt, 20)) { // it needs nearly all blocks
				t.Errorf("%s: %v", way, got)
			}
		}
	})
}

// TestSweepsFindWhatIsWorthKeeping goes through the cache of an engine after a prompt: what it
// finds are the prompt's blocks in order, which can be read; nothing is found twice.
func TestSweepsFindWhatIsWorthKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{}, sched.Config{Blocks: 80, StepTokens: 64, StepOutputs: 8, Seqs: 4})
		r := &parley.Request{Prompt: long(3, 150), MaxTokens: 3}
		ask(t, e, r)
		kept := map[parley.BlockHash]bool{}
		var names []parley.BlockHash
		for range 2 {
			s := Sweep{Least: 0.01, Known: func(name *parley.BlockHash) bool { return kept[*name] }}
			found, whole, err := s.Next(t.Context(), e, nil)
			if err != nil || !whole {
				t.Fatal(whole, err)
			}
			for _, p := range found {
				names = append(names, p.Name)
			}
			for _, name := range names {
				kept[name] = true
			}
		}
		want := parley.AppendBlockHashes(nil, parley.BlockHash{}, r.Salt, r.Prompt, compute.BlockTokens)
		if !slices.Equal(names, want) {
			t.Fatalf("%d blocks were found, want %d", len(names), len(want))
		}
		room := make([]byte, len(names)*compute.BlockTokens)
		if n, err := e.ReadBlocks(t.Context(), names, 0, room); n != len(room) || err != nil {
			t.Errorf("%d bytes were read, %v", n, err)
		}
	})
}

// TestVisitsEndBeforeTheirCallers cancels visits: one that has not begun never runs, and one that runs is
// waited for.
func TestVisitsEndBeforeTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{}, sched.Config{Blocks: 8, StepTokens: 64, StepOutputs: 8, Seqs: 2})
		ctx, cancel := context.WithCancel(t.Context())
		proceed, ended := make(chan struct{}), make(chan error, 2)
		ran := false
		go func() { ended <- e.visit(ctx, func(*loop) { <-proceed; ran = true }) }()
		synctest.Wait()
		go func() { ended <- e.visit(ctx, func(*loop) { t.Error("a visit ran after it was cancelled") }) }()
		synctest.Wait()
		cancel()
		if err := <-ended; parley.CodeOf(err) != parley.Cancelled {
			t.Errorf("a visit that has not begun: %v", err)
		}
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("a visit has returned that still runs")
		}
		close(proceed)
		if err := <-ended; err != nil || !ran {
			t.Errorf("a visit that ran: %t, %v", ran, err)
		}
	})
}
