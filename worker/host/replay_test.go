package host

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/internal/testkit"
)

// TestARecordedTraceOverARollingRestart replays conversations of a recorded trace, each prompt shortened by the same
// factor, and restarts all workers one after the other in the middle: as much of the prompts is found as in an
// undisturbed run, within two points. No worker has a disk.
func TestARecordedTraceOverARollingRestart(t *testing.T) {
	prompts := recordedPrompts(t, testkit.SharedData(t, "traces", "conversation_trace.jsonl.gz"), 40)
	calm, restarted := replayRecorded(t, prompts, false), replayRecorded(t, prompts, true)
	t.Logf("%d prompts: %.1f %% of their tokens were found in an undisturbed run, %.1f %% with a restart", len(prompts),
		100*calm, 100*restarted)
	if calm < 0.2 || restarted < calm-0.02 {
		t.Errorf("%.3f of the prompts was found, %.3f in an undisturbed run", restarted, calm)
	}
}

// recordedPrompts returns the prompts of the first conversations of a trace in Mooncake's format, in its order. A block
// of 512 tokens of the trace is one of 16 tokens here. Prompts that share the second block are of one conversation.
// Those with a single turn or more than eight, and with prompts that are too long for the model, are left out.
func recordedPrompts(t *testing.T, path string, conversations int) (prompts [][]parley.Token) {
	t.Helper()
	const most = 60 // blocks
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<26)
	var all [][]int32
	turns := map[int32]int{}
	for lines.Scan() {
		var r struct {
			HashIDs []int32 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if ids := r.HashIDs; len(ids) > 1 {
			all = append(all, ids)
			if turns[ids[1]]++; len(ids) > most {
				turns[ids[1]] = -1 << 30
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	taken := map[int32]bool{}
	for _, ids := range all {
		if turns[ids[1]] < 2 || turns[ids[1]] > 8 || !taken[ids[1]] && len(taken) == conversations {
			continue
		}
		taken[ids[1]] = true
		prompts = append(prompts, tokensOf(ids))
	}
	return prompts
}

// tokensOf returns a block of tokens for each number, others for each.
func tokensOf(ids []int32) (tokens []parley.Token) {
	for _, id := range ids {
		for i := range compute.BlockTokens {
			tokens = append(tokens, parley.Token(300+(int(id)>>(i%4*5)&31)*32+i))
		}
	}
	return append(tokens, 300) // so that all before it is full blocks
}

// replayRecorded returns how much of the prompts was found.
func replayRecorded(t *testing.T, prompts [][]parley.Token, restart bool) float64 {
	t.Helper()
	f, all := startRolling(t, handOverModel(), 3)
	found, asked := 0, 0
	for i, p := range prompts {
		if restart && i == len(prompts)/2 {
			for _, w := range all {
				w.stop()
				w.end()
				w.start()
				awaitStanding(t, f, w.name, func(s *fleet.Standing) bool { return s.State == fleet.Up })
			}
		}
		_, u, _ := askTransfer(t, f, &parley.Request{ID: fmt.Sprint("prompt ", i), Model: "polly-mini", Prompt: p,
			MaxTokens: 1, Stop: parley.Stop{IgnoreEnd: true}})
		found, asked = found+u.CachedTokens, asked+u.PromptTokens
	}
	for _, w := range all {
		w.stop()
		w.end()
	}
	return float64(found) / float64(asked)
}
