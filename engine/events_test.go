package engine

import (
	"iter"
	"maps"
	"testing"

	"parley"
	"parley/engine/kv"
	"parley/engine/sched"
)

// A place is where a block is.
type place struct {
	hash parley.BlockHash
	tier kv.Tier
}

// A heard is what somebody who listens believes the cache to hold.
type heard struct {
	blocks  map[place]bool
	cleared int
	tokens  int
}

func (h *heard) take(events iter.Seq[kv.Event]) {
	for e := range events {
		switch e.Kind {
		case kv.Stored:
			h.blocks[place{e.Hash, e.Tier}] = true
			h.tokens += len(e.Tokens)
		case kv.Removed:
			delete(h.blocks, place{e.Hash, e.Tier})
		case kv.Cleared:
			clear(h.blocks)
			h.cleared++
		}
	}
}

// TestEventsTellTheCache lets more prompts be answered than the pool holds, and
// compares what was told with what is there, for a cache that remembers many
// events and for one that remembers so few that all must be told anew.
func TestEventsTellTheCache(t *testing.T) {
	for name, kept := range map[string]int{"many": 1000, "few": 2} {
		t.Run(name, func(t *testing.T) {
			h := &heard{blocks: map[place]bool{}}
			e := newCounter(t, &counter{events: h.take}, sched.Config{Blocks: 20, StepTokens: 64, StepOutputs: 64,
				Seqs: 4, Cache: kv.Config{Events: kept, HostBlocks: 8}})
			for i := range 12 {
				prompt := make([]parley.Token, 100)
				for j := range prompt {
					prompt[j] = parley.Token((i*7 + j) % 50)
				}
				for _, err := range e.Generate(t.Context(), &parley.Request{Prompt: prompt, MaxTokens: 20}) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			there := map[place]bool{}
			told := 0
			err := e.Snapshot(t.Context(), func(blocks iter.Seq[kv.Event]) {
				for b := range blocks {
					there[place{b.Hash, b.Tier}] = true
				}
				told = len(h.blocks) // here, where nothing changes
				if !maps.Equal(there, h.blocks) {
					t.Errorf("%d blocks are there, %d were told", len(there), len(h.blocks))
				}
			})
			if err != nil || told == 0 || h.tokens == 0 {
				t.Errorf("%d blocks and %d tokens were told: %v", told, h.tokens, err)
			}
			if (h.cleared > 0) != (kept == 2) {
				t.Errorf("everything was told anew %d times", h.cleared)
			}
		})
	}
}

// TestSnapshotsOfClosedEngines end with an error and not never.
func TestSnapshotsOfClosedEngines(t *testing.T) {
	e := newCounter(t, &counter{}, sched.Config{Blocks: 20, StepTokens: 64, StepOutputs: 64, Seqs: 4})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Snapshot(t.Context(), func(iter.Seq[kv.Event]) {
		t.Error("taken")
	}); parley.CodeOf(err) != parley.Unavailable {
		t.Errorf("%v", err)
	}
}
