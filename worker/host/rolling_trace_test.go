package host

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
	"parley/fleet"
)

// TestARollingRestartKeepsTheCache replays conversations whose next turn holds all before it, and restarts all
// workers one after the other between two turns: as much of the prompts is found as in an undisturbed run, within two
// points. Between the restarts nothing is asked, so nothing moves with an answer: a worker that stops hands over
// what it holds.
func TestARollingRestartKeepsTheCache(t *testing.T) {
	calm, restarted := replayTurns(t, false), replayTurns(t, true)
	t.Logf("%.1f %% of the prompts were found in an undisturbed run, %.1f %% with a restart", 100*calm, 100*restarted)
	if calm < 0.5 || restarted < calm-0.02 {
		t.Errorf("%.3f of the prompts were found, %.3f in an undisturbed run", restarted, calm)
	}
}

// replayTurns returns how much of the prompts was found.
func replayTurns(t *testing.T, restart bool) float64 {
	t.Helper()
	const conversations, turns = 12, 4
	f, all := startRolling(t, Config{
		Name:          "polly-mini",
		KVTokens:      1 << 15,
		ContextTokens: 1024,
	}, 3)
	up := func() {
		for _, w := range all {
			awaitStanding(t, f, w.name, func(s *fleet.Standing) bool { return s.State == fleet.Up })
		}
	}
	rng := rand.New(rand.NewPCG(24, 8))
	said := make([][]parley.Token, conversations)
	found, asked := 0, 0
	for turn := range turns {
		if restart && turn == turns/2 {
			for _, w := range all {
				w.stop()
				w.end()
				w.start()
				up()
			}
		}
		for i := range said {
			r := gapRequest(rng, 150, 24)
			r.ID, r.Salt = fmt.Sprint("turn ", turn, " of ", i), parley.Salt{byte(i)}
			r.Prompt = slices.Concat(said[i], r.Prompt)
			answer, u, _ := askTransfer(t, f, r)
			said[i] = slices.Concat(r.Prompt, answer)
			found, asked = found+u.CachedTokens, asked+u.PromptTokens
		}
	}
	for _, w := range all {
		w.stop()
		w.end()
	}
	return float64(found) / float64(asked)
}

// gapRequest returns a request that no worker has seen.
func gapRequest(rng *rand.Rand, tokens, answer int) *parley.Request {
	r := &parley.Request{
		Model:     "polly-mini",
		Prompt:    make([]parley.Token, tokens),
		MaxTokens: answer,
		Stop:      parley.Stop{IgnoreEnd: true},
	}
	for i := range r.Prompt {
		r.Prompt[i] = parley.Token(300 + rng.IntN(1000))
	}
	return r
}
