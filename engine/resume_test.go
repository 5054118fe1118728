package engine

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/engine/sched"
)

// TestAnAnswerGoesOnElsewhere breaks answers of all kinds off after every
// number of deltas and has another engine, tight and busy, go on: what both
// said together, with its log-probabilities and its endings, is the whole answer.
func TestAnAnswerGoesOnElsewhere(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			here := newCounter(t, &counter{period: 6},
				sched.Config{Blocks: 1000, StepTokens: 500, StepOutputs: 100, Seqs: 8})
			there := newCounter(t, &counter{period: 6, delay: time.Millisecond, speculate: seed%2 == 0},
				sched.Config{Blocks: 20, StepTokens: 30, StepOutputs: 10, Seqs: 6})
			for _, r := range randomRequests(rng, 3) {
				r.PromptLogprobs, r.Logprobs, r.TopLogprobs = false, true, 2
				r.Sampling.FrequencyPenalty, r.Sampling.RepetitionPenalty = 0.3, 1.1
				if rng.IntN(4) == 0 {
					r.SinkTokens, r.MaxTokens, r.Stop, r.Grammar = 8, 400, parley.Stop{IgnoreEnd: true}, nil
				}
				whole := listen(t, here, r)
				for range 4 {
					cut := rng.IntN(len(whole))
					if got, want := gather(r, append(whole[:cut:cut], listen(t, there,
						resumed(r, whole[:cut]))...)), gather(r, whole); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d: cut after %d of %d deltas\ngot  %+v\nwant %+v", seed, cut, len(whole), got,
							want)
					}
				}
			}
		})
	}
}

func listen(t *testing.T, e *Engine, r *parley.Request) (out []parley.Delta) {
	t.Helper()
	for d, err := range e.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

// resumed is the request that goes on after the deltas.
func resumed(r *parley.Request, after []parley.Delta) *parley.Request {
	again := *r
	again.Resume = make([]parley.Partial, max(1, r.Choices))
	for _, d := range after {
		w := &again.Resume[d.Choice]
		w.Tokens, w.Done = append(w.Tokens, d.Tokens...), d.Finish != ""
	}
	return &again
}

// gather puts the deltas of each choice together.
func gather(r *parley.Request, deltas []parley.Delta) []parley.Delta {
	out := make([]parley.Delta, max(1, r.Choices))
	for _, d := range deltas {
		o := &out[d.Choice]
		o.Tokens, o.Logprobs = append(o.Tokens, d.Tokens...), append(o.Logprobs, d.Logprobs...)
		o.Finish, o.StopString = d.Finish, d.StopString
	}
	return out
}

// TestACompleteAnswerIsEnded resumes one whose end nobody heard.
func TestACompleteAnswerIsEnded(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	for _, c := range []struct {
		r    parley.Request
		want parley.Delta
	}{
		{parley.Request{MaxTokens: 3}, parley.Delta{Finish: parley.FinishLength}},
		{parley.Request{Stop: parley.Stop{Strings: []string{"1,22"}}},
			parley.Delta{Finish: parley.FinishStop, StopString: "1,22"}},
		{parley.Request{Grammar: new(parley.Literal("11,22,33,"))}, parley.Delta{Finish: parley.FinishStop}},
	} {
		c.r.Prompt, c.r.Resume = long(3, 20), []parley.Partial{{Tokens: []parley.Token{11, 22, 33}}}
		if c.want.StopString != "" {
			c.r.Resume[0].Tokens = c.r.Resume[0].Tokens[:2]
		}
		got := listen(t, e, &c.r)
		if len(got) != 1 || got[0].Finish != c.want.Finish || got[0].StopString != c.want.StopString ||
			len(got[0].Tokens) != 0 || got[0].Usage == nil || got[0].Usage.OutputTokens != 0 {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestResumingIsChecked(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	said := []parley.Partial{{Tokens: []parley.Token{11, 22, 33}}}
	for name, r := range map[string]parley.Request{
		"choices":  {Choices: 2, Resume: said},
		"complete": {Resume: []parley.Partial{{Done: true}}},
		"token":    {Resume: []parley.Partial{{Tokens: []parley.Token{counterVocab}}}},
		"context":  {Resume: []parley.Partial{{Tokens: make([]parley.Token, 250)}}},
		"prompt":   {PromptLogprobs: true, Resume: said},
		"past end": {MaxTokens: 2, Resume: said},
		"grammar":  {Grammar: new(parley.Literal("11,2222222")), Resume: said},
	} {
		r.Prompt = long(3, 20)
		if _, _, err := collect(t.Context(), e, &r); parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
