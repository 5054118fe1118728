package host

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/engine/kv"
	"parley/route/kvindex"
	"parley/worker/workertest"
)

// TestFollowedInProcess has an index follow an engine in this process, and
// compares it with what the engine holds.
func TestFollowedInProcess(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{KVTokens: 512, ContextTokens: 256, Followed: true})
	x, err := kvindex.New(kvindex.Config{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := x.Join(h.Source())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		if err := h.Follow(ctx, listenerOf(&mu, x, id)); parley.CodeOf(err) != parley.Internal && ctx.Err() == nil {
			t.Error(err)
		}
	})
	defer following.Wait()
	defer cancel()
	// more than the pool holds
	for _, text := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight"} {
		workertest.Ask(t, h, &parley.Request{Model: h.Models()[0].ID,
			Prompt: chatPrompt(t, h, strings.Repeat(text+" ", 60)), MaxTokens: 20, Stop: parley.Stop{IgnoreEnd: true}})
	}
	held := map[parley.BlockHash]bool{}
	if err := h.Snapshot(t.Context(), func(blocks iter.Seq[kv.Event]) {
		for e := range blocks {
			held[e.Hash] = true
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(held) < 8 || len(held) > 32 {
		t.Fatalf("the engine holds %d blocks, its pool has 32", len(held))
	}
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		mu.Lock()
		stats := x.Stats(id)
		mu.Unlock()
		if stats.State == kvindex.Exact && stats.Held == len(held) && stats.Removed > 0 {
			break
		}
		if time.Since(began) > 30*time.Second {
			t.Fatalf("the index has %+v, the engine holds %d blocks", stats, len(held))
		}
	}
}
