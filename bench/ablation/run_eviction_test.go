package ablation

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/engine/kv"
	"parley/internal/load"
	"parley/internal/testkit"
	"parley/sim/traffic"
)

// Turns of one conversation begin with all blocks of the turn before that were
// full, and conversations share their system prompt alone.
func TestRowsShareWhatRequestsShare(t *testing.T) {
	w := talks
	w.Turns, w.Open = traffic.Fixed(5), 4
	var requests []traffic.Request
	for r := range traffic.Take(w.Stream(0, 1), 40) {
		requests = append(requests, r)
	}
	rows := rowsOf(slices.Values(requests))
	last := map[uint64][]uint64{}
	for i, row := range rows {
		r := &requests[i]
		if len(row.Blocks) != r.PromptTokens()/traffic.MooncakeBlockTokens || row.InputTokens != r.PromptTokens() {
			t.Fatalf("a prompt of %d tokens became %d blocks", r.PromptTokens(), len(row.Blocks))
		}
		before := last[r.Conversation]
		if len(row.Blocks) < len(before) || !slices.Equal(row.Blocks[:len(before)], before) {
			t.Errorf("turn %d of conversation %d does not begin as the turn before", r.Turn, r.Conversation)
		}
		for other, blocks := range last {
			if other != r.Conversation && (blocks[0] != row.Blocks[0] ||
				len(blocks) > 1 && len(row.Blocks) > 1 && blocks[1] == row.Blocks[1]) {
				t.Errorf("conversations %d and %d share something other than their system prompt", other,
					r.Conversation)
			}
		}
		last[r.Conversation] = row.Blocks
	}
}

// The two policies on the recorded conversations: LRU finds what was published
// of it.
func TestFoundAgreesWithThePublishedRatio(t *testing.T) {
	rows, err := load.OpenTrace(testkit.SharedData(t, "traces", "conversation_trace.jsonl.gz"), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	lru, err := found(t.Context(), rows, kv.LRU, 1)
	if err != nil || math.Abs(lru[0]-5.33) > 0.05 {
		t.Errorf("LRU found %v %% (%v), want 5.33", lru, err)
	}
	learned, err := found(t.Context(), rows, kv.Learned, 1)
	if err != nil || learned[0] < 11 {
		t.Errorf("the learned policy found %v %% (%v), want at least 11", learned, err)
	}
}

func TestEvictionOnMadeUpConversations(t *testing.T) {
	rows, err := Select([]string{"eviction"})
	if err != nil {
		t.Fatal(err)
	}
	var steps []int
	results, err := Run(t.Context(), Options{Mechanisms: rows, Progress: func(done, total int) {
		steps = append(steps, done, total)
	}})
	if err != nil || len(results) != 1 {
		t.Fatalf("%+v %v", results, err)
	}
	if r := results[0]; !r.Met || len(r.OnRounds) != 12 ||
		!strings.Contains(r.Note, "12000 requests of conversations made up") {
		t.Errorf("%+v", r)
	}
	if !slices.Equal(steps, []int{12, 24, 24, 24}) {
		t.Errorf("progress %v", steps)
	}
}

func TestRunRefusesATraceWithoutBlocks(t *testing.T) {
	_, err := Run(t.Context(), Options{Trace: []traffic.Row{{At: time.Second, InputTokens: 100, OutputTokens: 1}}})
	if err == nil || !strings.Contains(err.Error(), "block hashes") {
		t.Errorf("%v", err)
	}
}
