package engine

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"parley"
	"parley/engine/sched"
)

// windowed returns the counter's answer where the context is bounded and the
// first tokens stay.
func windowed(prompt []parley.Token, sinks, context, n int) (out []parley.Token, dropped int) {
	text := slices.Clone(prompt)
	fit := func() {
		if drop := overflow(len(text), context); drop > 0 {
			text = slices.Delete(text, sinks, sinks+drop)
			dropped += drop
		}
	}
	fit()
	for range n {
		next := expect(text, 1)[0]
		out, text = append(out, next), append(text, next)
		if len(out) < n {
			fit()
		}
	}
	return out, dropped
}

// TestATextOutgrowsTheContext answers far beyond the context, from short and
// long prompts, alone and together in a tight pool with guessing: the tokens
// are those of a text that lost its middle.
func TestATextOutgrowsTheContext(t *testing.T) {
	const context = 256
	cfgs := map[string]sched.Config{
		"roomy": {Blocks: 100, StepTokens: 500, StepOutputs: 100, Seqs: 8},
		"tight": {Blocks: 20, StepTokens: 40, StepOutputs: 10, Seqs: 3},
	}
	for name, cfg := range cfgs {
		synctest.Test(t, func(t *testing.T) {
			e := newCounter(t, &counter{speculate: name == "tight"}, cfg)
			var requests []*parley.Request
			for i, length := range []int{10, 255, 256, 257, 700} {
				requests = append(requests, &parley.Request{Prompt: long(i+2, length), SinkTokens: 5 + 20*i,
					MaxTokens: 300 + i, Stop: parley.Stop{IgnoreEnd: true}})
			}
			for i, got := range askAll(t, e, requests) {
				r := requests[i]
				want, _ := windowed(r.Prompt, r.SinkTokens, context, r.MaxTokens)
				if !slices.Equal(got.tokens[0], want) {
					t.Errorf("%s, prompt of %d: got %v\nwant %v", name, len(r.Prompt), got.tokens[0], want)
				}
			}
		})
	}
}

func TestWhatWasDroppedIsCounted(t *testing.T) {
	e := newCounter(t, &counter{}, sched.Config{Blocks: 100, StepTokens: 500, StepOutputs: 100, Seqs: 8})
	r := &parley.Request{Prompt: long(3, 300), SinkTokens: 16, MaxTokens: 100, Stop: parley.Stop{IgnoreEnd: true}}
	_, dropped := windowed(r.Prompt, r.SinkTokens, 256, r.MaxTokens)
	_, last, err := collect(t.Context(), e, r)
	if err != nil || last.Usage.DroppedTokens != dropped || dropped != 192 || last.Usage.PromptTokens != 300 {
		t.Errorf("%+v, %v; want %d dropped", last.Usage, err, dropped)
	}
	unbounded := &parley.Request{Prompt: long(3, 20), SinkTokens: 16, Stop: parley.Stop{IgnoreEnd: true}}
	if _, last, err = collect(t.Context(), e, unbounded); err != nil || last.Usage.OutputTokens != 256 ||
		last.Finish != parley.FinishLength {
		t.Errorf("without a bound: %+v, %v", last, err)
	}
}

func TestSinksAreChecked(t *testing.T) {
	e := newCounter(t, &counter{}, sched.Config{Blocks: 100, StepTokens: 500, StepOutputs: 100, Seqs: 8})
	for what, r := range map[string]*parley.Request{
		"too long without sinks": {Prompt: long(3, 256)},
		"too many sinks":         {Prompt: long(3, 10), SinkTokens: 129},
		"fewer than none":        {Prompt: long(3, 10), SinkTokens: -1},
		"prompt scores":          {Prompt: long(3, 10), SinkTokens: 4, PromptLogprobs: true},
	} {
		var refused *parley.Error
		if _, _, err := collect(t.Context(), e, r); !errors.As(err, &refused) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAPublicBeginningIsShared asks under two salts: what is public is found by
// the second, what follows is not, although the tokens are the same.
func TestAPublicBeginningIsShared(t *testing.T) {
	e := newCounter(t, &counter{}, sched.Config{Blocks: 100, StepTokens: 500, StepOutputs: 100, Seqs: 8})
	prompt := long(3, 100)
	for _, c := range []struct{ salt, public, cached int }{
		{1, 40, 0},
		{1, 40, 96}, // its own
		{2, 40, 32}, // two whole blocks are public
		{3, 0, 0},
	} {
		r := &parley.Request{Prompt: prompt, PublicTokens: c.public, Salt: parley.Salt{byte(c.salt)}, MaxTokens: 2}
		got, last, err := collect(t.Context(), e, r)
		if err != nil || last.Usage.CachedTokens != c.cached || !slices.Equal(got[0], expect(prompt, 2)) {
			t.Errorf("%+v: %d tokens were cached, %v, %v", c, last.Usage.CachedTokens, got, err)
		}
	}
}
