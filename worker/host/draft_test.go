package host

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/engine/spec"
	"parley/internal/testkit"
	"parley/model/weights"
)

// TestDraftChangesNoToken answers chats with and without a draft model, one by
// one and all at once, greedily and not. Each answer is the same, token for
// token.
func TestDraftChangesNoToken(t *testing.T) {
	registry := prometheus.NewRegistry()
	plain := startHost(t, openBuiltin(t, "polly"), Config{Name: "polly", KVTokens: 8192, NoSpeculation: true})
	drafted := startHost(t, openBuiltin(t, "polly"),
		Config{Name: "polly", KVTokens: 8192, Draft: openBuiltin(t, "polly-mini"), Registry: registry})
	var requests []*parley.Request
	for i, text := range chatPrompts {
		requests = append(requests, &parley.Request{Prompt: chatPrompt(t, plain, text), MaxTokens: 60,
			Sampling: parley.Sampling{Temperature: float32(i%4) * 0.4, TopP: 0.95, FrequencyPenalty: float32(i % 3),
				Seed: uint64(i)}})
	}
	want, alone, together := make([][]parley.Token, len(requests)), make([][]parley.Token,
		len(requests)), make([][]parley.Token, len(requests))
	for i, r := range requests {
		want[i], alone[i] = answer(t, plain, r), answer(t, drafted, r)
	}
	// Whether it is worth it to guess is measured, so on a busy machine it may take
	// some rounds until the draft model was right and wrong.
	for began, tested := time.Now(), false; !tested; {
		var wg sync.WaitGroup
		for i, r := range requests {
			wg.Go(func() { together[i] = answer(t, drafted, r) })
		}
		wg.Wait()
		for i := range requests {
			if len(want[i]) == 0 || !slices.Equal(alone[i], want[i]) || !slices.Equal(together[i], want[i]) {
				t.Fatalf("%s: %v without a draft, %v with one, %v among others", chatPrompts[i], want[i], alone[i],
					together[i])
			}
		}
		s := drafted.Stats()
		g := s.Guesses[spec.ByModel]
		if tested = g.Right > 0 && g.Right < g.Guessed; s.DraftFailures != 0 ||
			!tested && time.Since(began) > 5*time.Minute {
			t.Fatalf("the draft model was not tested: %+v", s)
		}
	}
	checkGuessMetrics(t, registry, drafted.Stats().Guesses[spec.ByModel].Right)
}

// checkGuessMetrics wants what came true by drafter, and in all under vLLM's name.
func checkGuessMetrics(t *testing.T, registry *prometheus.Registry, byModel uint64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var name strings.Builder
			name.WriteString(f.GetName())
			for _, l := range m.Label {
				if l.GetName() == "drafter" {
					name.WriteString(" " + l.GetValue())
				}
			}
			got[name.String()] = m.GetCounter().GetValue()
		}
	}
	ours, all := "parley_engine_guessed_right_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"
	if got[ours+" model"] != float64(byModel) || got[all] != got[ours+" model"]+got[ours+" lookup"] ||
		got["parley_engine_draft_seconds_total"] <= 0 {
		t.Errorf("%d guesses of the model came true, but there are %v", byModel, slices.Sorted(maps.Keys(got)))
	}
}

func TestDraftMustHaveTheSameVocabulary(t *testing.T) {
	foreign, err := weights.Open(testkit.Golden("tiny-llama"))
	if err != nil {
		t.Fatal(err)
	}
	plans, err := PlanMemory(
		[]Candidate{{openBuiltin(t, "polly"), Config{Name: "polly", KVTokens: 1024, Draft: foreign}}}, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := Start(plans[0]); err == nil ||
		!strings.Contains(err.Error(), "draft model tiny-llama does not match: it scores") {
		t.Errorf("a draft model of another vocabulary: %v, %v", h, err)
	}
}

func TestPlanCountsTheDraft(t *testing.T) {
	cfg := Config{Name: "polly", KVTokens: 4096}
	plan := func(cfg Config) *Plan {
		plans, err := PlanMemory([]Candidate{{openBuiltin(t, "polly"), cfg}}, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		return plans[0]
	}
	without := plan(cfg)
	cfg.Draft, cfg.DraftName = openBuiltin(t, "polly-mini"), "polly-mini"
	with := plan(cfg)
	d := with.Draft
	if d == nil || d.Name != "polly-mini" || d.KVTokens != 4096 || d.KVBytes <= 0 || d.WeightBytes <= 0 ||
		with.Bytes() != without.Bytes()+d.WeightBytes+d.KVBytes+d.ActivationBytes {
		t.Errorf("without a draft %d bytes, with it %d: %+v", without.Bytes(), with.Bytes(), d)
	}
	if _, err := PlanMemory([]Candidate{{openBuiltin(t, "polly"), cfg}}, without.Bytes()); err == nil ||
		!strings.Contains(err.Error(), "would fit") {
		t.Errorf("the draft does not fit: %v", err)
	}
	cfg.NoSpeculation = true
	if off := plan(cfg); off.Draft != nil || off.Bytes() != without.Bytes() {
		t.Errorf("without speculation the draft takes %d bytes", off.Bytes()-without.Bytes())
	}
}
