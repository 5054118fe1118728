package host

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/model/weights"
)

// TestWindowsOfAModelAndItsDraft: blocks must serve both.
func TestWindowsOfAModelAndItsDraft(t *testing.T) {
	config := func(window int, sliding ...bool) weights.Config {
		return weights.Config{AttentionShape: weights.AttentionShape{SlidingWindow: window, Sliding: sliding}}
	}
	all, some, none := config(64, true, true), config(64, true, false), config(0, false, false)
	wide := config(128, true)
	for i, c := range []struct {
		model, draft *weights.Config
		want         int
	}{
		{&all, nil, 64}, {&some, nil, 0}, {&none, nil, 0}, {&all, &wide, 128}, {&wide, &all, 128}, {&all, &none, 0},
		{&all, &some, 0}, {&none, &all, 0},
	} {
		var d *draft
		if c.draft != nil {
			d = &draft{ck: &weights.Checkpoint{Config: *c.draft}}
		}
		if got := d.window(c.model); got != c.want {
			t.Errorf("case %d: %d, want %d", i, got, c.want)
		}
	}
}

// TestWindowsFreeBlocks answers requests that together need several times the memory there is, with a model whose every
// layer has a window of 64 tokens: prompts in chunks, some beginning alike, several choices, guesses, greedily and
// with seeds. As sequences leave behind what they do not look at again, none is preempted, and the tokens are those
// of a host with room for all: also with tiers behind the memory, and when the same requests come again.
func TestWindowsFreeBlocks(t *testing.T) {
	const pool, most = 1536, 700
	open := openShape(t, "tiny-mistral", "bf16")
	start := func(tokens int, tiers int64) *Host {
		ck, err := open()
		if err != nil {
			t.Fatal(err)
		}
		return startHost(t, ck, Config{
			Name:          "windows",
			ContextTokens: 2048,
			KVTokens:      tokens,
			StepTokens:    64,
			KVHostBytes:   tiers,
			KVDiskBytes:   tiers,
			DataDir:       t.TempDir(),
		})
	}
	rng := rand.New(rand.NewPCG(64, 1))
	var requests []*parley.Request
	for i := range 8 {
		r := &parley.Request{MaxTokens: most - 250, Stop: parley.Stop{IgnoreEnd: true}, Choices: 1 + i%4/3}
		for range 30 + i*30 {
			r.Prompt = append(r.Prompt, parley.Token(4+rng.IntN(400)))
		}
		if i%3 == 2 {
			copy(r.Prompt, requests[i-1].Prompt)
		}
		if i%2 == 1 {
			r.Sampling = parley.Sampling{Temperature: 1, Seed: uint64(i)}
		}
		requests = append(requests, r)
	}
	run := func(h *Host) [][]parley.Token {
		answers := make([][]parley.Token, len(requests))
		var work sync.WaitGroup
		for i, r := range requests {
			work.Go(func() {
				choices := make([][]parley.Token, r.Choices)
				for d, err := range h.Generate(t.Context(), r) {
					if err != nil {
						t.Error(err)
						return
					}
					choices[d.Choice] = append(choices[d.Choice], d.Tokens...)
				}
				answers[i] = slices.Concat(choices...)
			})
		}
		work.Wait()
		return answers
	}
	want := run(start(64<<10, 0))
	for _, tiers := range []int64{0, 1 << 20} {
		h := start(pool, tiers)
		for round := range 2 {
			for i, got := range run(h) {
				if len(want[i]) != requests[i].Choices*requests[i].MaxTokens || !slices.Equal(got, want[i]) {
					t.Errorf("request %d in round %d, tiers of %d bytes: %v, want %v", i, round, tiers, got, want[i])
				}
			}
		}
		for end := time.Now().Add(time.Minute); h.Stats().Pool.InUse > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("blocks are still in use: %+v", h.Stats().Pool)
			}
		}
		if s := h.Stats(); s.Preempted > s.Yielded || s.Repairs > 0 {
			t.Errorf("%d sequences were preempted, %d repairs", s.Preempted-s.Yielded, s.Repairs)
		}
	}
}
