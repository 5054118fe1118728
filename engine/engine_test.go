package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley"
	"parley/compute"
	"parley/engine/sched"
	"parley/engine/spec"
)

var small = sched.Config{Blocks: 40, StepTokens: 24, StepOutputs: 10, Seqs: 8}

// collect reads an answer to its end.
func collect(ctx context.Context, e *Engine,
	r *parley.Request) (tokens [][]parley.Token, last parley.Delta, err error) {
	tokens = make([][]parley.Token, max(1, r.Choices))
	for d, err := range e.Generate(ctx, r) {
		if err != nil {
			return tokens, last, err
		}
		tokens[d.Choice] = append(tokens[d.Choice], d.Tokens...)
		last = d
	}
	return tokens, last, nil
}

func TestManyStreamsThroughASmallPool(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			var prompt []parley.Token
			for p := range 1 + i*7%90 {
				prompt = append(prompt, parley.Token(i+p)%98)
			}
			want := expect(prompt, 1+i%20)
			got, last, err := collect(t.Context(), e,
				&parley.Request{Prompt: prompt, MaxTokens: len(want), Stop: parley.Stop{IgnoreEnd: true}})
			if err != nil || !slices.Equal(got[0], want) {
				t.Errorf("stream %d: %v, %v; want %v", i, got, err, want)
				return
			}
			if last.Usage == nil || last.Usage.PromptTokens != len(prompt) || last.Usage.OutputTokens != len(want) ||
				last.Finish != parley.FinishLength {
				t.Errorf("stream %d ended with %+v, usage %+v", i, last, last.Usage)
			}
		})
	}
	wg.Wait()
}

func TestChoicesShareThePrompt(t *testing.T) {
	for _, prompt := range []int{1, 15, 16, 17, 40} {
		n := &counter{}
		e := newCounter(t, n, small)
		r := &parley.Request{Prompt: make([]parley.Token, prompt), Choices: 3, MaxTokens: 5}
		got, last, err := collect(t.Context(), e, r)
		if err != nil {
			t.Fatal(err)
		}
		for c := range 3 {
			if !slices.Equal(got[c], expect(r.Prompt, 5)) {
				t.Errorf("prompt of %d: choice %d is %v", prompt, c, got[c])
			}
		}
		if u := last.Usage; u.PromptTokens != prompt || u.OutputTokens != 15 {
			t.Errorf("prompt of %d: usage %+v", prompt, u)
		}
		if tokens := e.Stats().StepTokens; tokens != uint64(prompt+3*4) {
			t.Errorf("prompt of %d: %d tokens were computed; the prompt counts once", prompt, tokens)
		}
	}
}

// TestHowItIsScheduledChangesNothing answers random requests, many of which
// share a beginning, one by one in a roomy engine and all at once in a tight
// one, where they share blocks, are cut into chunks, preempted for memory and for
// seats, resumed and guessed ahead, by lookup and by draft networks good and bad, and
// in which the device chooses tokens itself while the next pass is planned: with bias,
// penalties, grammars and log-probabilities. The tokens are the same, and so are the bits of
// log-probabilities.
//
// At a temperature, too, this compares tokens, not distributions: a guess is
// checked by making the very draw that would have been made without it, so the
// distribution is preserved because every single answer is.
func TestHowItIsScheduledChangesNothing(t *testing.T) {
	var tight Stats
	var device drawn
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			s, d := compareTight(t, seed)
			device.add(d)
			for d := range tight.Guesses {
				tight.Guesses[d].Guessed += s.Guesses[d].Guessed
				tight.Guesses[d].Right += s.Guesses[d].Right
			}
			tight.Preempted += s.Preempted
			tight.Yielded += s.Yielded
			tight.Cache.HitTokens += s.Cache.HitTokens
			tight.Cache.Deduplicated += s.Cache.Deduplicated
			tight.Damaged += s.Damaged
			tight.Ahead += s.Ahead
			for t, n := range s.Cache.HitBlocks {
				tight.Cache.HitBlocks[t] += n
			}
		})
	}
	t.Logf("%d passes ahead, guesses %+v, %d preemptions, %d of them for seats", tight.Ahead, tight.Guesses,
		tight.Preempted, tight.Yielded)
	t.Logf("chosen on the device: %+v", device)
	t.Logf("%d tokens from the cache, blocks by tier %v, %d damaged, %d computed twice", tight.Cache.HitTokens,
		tight.Cache.HitBlocks, tight.Damaged, tight.Cache.Deduplicated)
	for d, g := range tight.Guesses {
		if g.Right == 0 || g.Right == g.Guessed {
			t.Errorf("guesses by %v were not tested", spec.Drafter(d))
		}
	}
	if tight.Yielded == 0 || tight.Preempted <= tight.Yielded || slices.Contains(tight.Cache.HitBlocks[:], 0) {
		t.Error("something of memory was not tested")
	}
	if tight.Damaged == 0 || tight.Ahead == 0 || min(device.ahead, device.adjusted, device.masked, device.steered,
		device.scored) == 0 {
		t.Error("something was not tested")
	}
}

// compareTight answers the requests of one seed in both engines.
func compareTight(t *testing.T, seed uint64) (Stats, drawn) {
	rng := rand.New(rand.NewPCG(seed, 1))
	period := 5 + rng.IntN(9)
	requests := randomRequests(rng, 1+rng.IntN(16))
	if seed%2 == 0 { // such that devices choose for all of them
		for _, r := range requests {
			r.Choices, r.PromptLogprobs = 1, false
			r.Logprobs = r.Logprobs && !r.FinishGrammar
			if seed%4 == 0 { // while the next pass is planned
				r.Grammar, r.FinishGrammar = nil, false
			}
		}
	}
	roomy := newCounter(t, &counter{period: period},
		sched.Config{Blocks: 1000, StepTokens: 500, StepOutputs: 100, Seqs: 8})
	var want []answer
	for _, r := range requests {
		want = append(want, askAll(t, roomy, []*parley.Request{r})...)
	}
	cfg := sched.Config{Blocks: 13 + rng.IntN(30), StepTokens: 10 + rng.IntN(60), Seqs: 3 + rng.IntN(8)}
	cfg.StepOutputs = cfg.Seqs + rng.IntN(20)
	cfg.AgeMax = time.Duration(1+rng.IntN(3000)) * time.Millisecond
	cfg.Cache.HostBlocks, cfg.Cache.DiskBlocks = rng.IntN(2)*rng.IntN(30), rng.IntN(2)*rng.IntN(60)
	n := &counter{period: period, delay: time.Millisecond, speculate: rng.IntN(3) > 0,
		lossy: rng.IntN(2) * (2 + rng.IntN(5))}
	if n.speculate && rng.IntN(2) > 0 {
		n.draft = &counter{period: period - rng.IntN(2), delay: 50 * time.Microsecond}
	}
	n.ahead = rng.IntN(2) > 0
	if rng.IntN(2) > 0 {
		n.aside = &asideCopies{polls: rng.IntN(12)}
	}
	e := newCounter(t, n, cfg)
	for round := range 3 {
		if got := askAll(t, e, requests); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, round %d: alone %v\ntogether %v", seed, round, want, got)
		}
		synctest.Wait() // idle: copies are made
	}
	return e.Stats(), n.drawn
}

// randomRequests makes requests of all kinds. Half of the prompts begin alike.
func randomRequests(rng *rand.Rand, n int) (out []*parley.Request) {
	for range n {
		r := &parley.Request{
			MaxTokens: 1 + rng.IntN(90), Choices: 1 + rng.IntN(3), PromptLogprobs: rng.IntN(5) == 0,
			Class: parley.Class(rng.IntN(parley.Classes)), Tenant: fmt.Sprint(rng.IntN(3)),
			Sampling: randomSampling(rng), Logprobs: rng.IntN(3) == 0, TopLogprobs: rng.IntN(4),
			Stop: parley.Stop{IgnoreEnd: true, Strings: []string{fmt.Sprintf(",%d,", rng.IntN(100))}},
		}
		for i := range rng.IntN(70) * rng.IntN(2) {
			r.Prompt = append(r.Prompt, parley.Token(i%counterVocab))
		}
		for range 1 + rng.IntN(40) {
			r.Prompt = append(r.Prompt, parley.Token(rng.IntN(counterVocab)))
		}
		switch rng.IntN(8) {
		case 0:
			r.Grammar = new(parley.Regex(`([1-9][0-9],){3,40}`))
		case 1:
			r.Grammar = new(parley.Sequence(parley.Literal("41,42,43,44,45,46,47,"), parley.Regex("([0-9]{1,2},){5}")))
		case 2:
			r.Grammar, r.FinishGrammar = new(parley.Regex(`([1-9][0-9],)*0`)), true
		}
		out = append(out, r)
	}
	return out
}

// randomSampling makes settings; half of them change scores.
func randomSampling(rng *rand.Rand) parley.Sampling {
	s := parley.Sampling{Temperature: float32(rng.IntN(2)) * 2, Seed: rng.Uint64()}
	switch rng.IntN(4) {
	case 0:
		s.RepetitionPenalty = 1 + rng.Float32()
	case 1:
		s.PresencePenalty, s.FrequencyPenalty = 4*rng.Float32(), 3*rng.Float32()
		s.LogitBias = map[parley.Token]float32{parley.Token(rng.IntN(counterVocab)): 8 * rng.Float32()}
	}
	return s
}

// An answer is all that a request was told: the tokens of its choices, and their log-probabilities.
type answer struct {
	tokens   [][]parley.Token
	logprobs [][]parley.Logprob
}

// askAll sends all requests at once.
func askAll(t *testing.T, e *Engine, requests []*parley.Request) []answer {
	answers := make([]answer, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			n := max(1, r.Choices)
			a := answer{make([][]parley.Token, n), make([][]parley.Logprob, n)}
			for d, err := range e.Generate(t.Context(), r) {
				if err != nil {
					t.Error(err)
					break
				}
				a.tokens[d.Choice] = append(a.tokens[d.Choice], d.Tokens...)
				a.logprobs[d.Choice] = append(a.logprobs[d.Choice], d.Logprobs...)
			}
			answers[i] = a
		})
	}
	wg.Wait()
	return answers
}

// TestSamePromptIsNotComputedTwice asks the same long prompt twice.
func TestSamePromptIsNotComputedTwice(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	r := &parley.Request{Prompt: make([]parley.Token, 100), MaxTokens: 3}
	for _, want := range []struct {
		cached int
		miss   string
	}{{0, "new"}, {96, "none"}} {
		got, last, err := collect(t.Context(), e, r)
		if err != nil || !slices.Equal(got[0], expect(r.Prompt, 3)) {
			t.Fatalf("%v, %v", got, err)
		}
		if last.Usage.CachedTokens != want.cached || last.Usage.Miss != want.miss {
			t.Errorf("usage %+v, want %+v", last.Usage, want)
		}
	}
	told := 0
	for d, err := range e.Generate(t.Context(), r) {
		if told += d.CachedTokens; err != nil || told != 96 {
			t.Errorf("%d tokens were cached, say the deltas up to %+v, %v", told, d, err)
		}
	}
	salted := *r
	salted.Salt = parley.Salt{1}
	if _, last, err := collect(t.Context(), e, &salted); err != nil || last.Usage.CachedTokens != 0 ||
		last.Usage.Miss != "other-salt" {
		t.Errorf("under another salt: %+v, %v", last.Usage, err)
	}
}

func TestStopsInTheVeryStep(t *testing.T) {
	n := &counter{}
	e := newCounter(t, n, small)
	// From [1] the counter says 2, 4, 8, 16, 32: "24816,32,".
	got, last, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 50,
		Stop: parley.Stop{Strings: []string{"nowhere", "81"}}})
	if err != nil || !slices.Equal(got[0], []parley.Token{2, 4, 8, 16}) {
		t.Errorf("got %v, %v", got, err)
	}
	if last.Finish != parley.FinishStop || last.StopString != "81" {
		t.Errorf("ended with %+v", last)
	}
	got, last, err = collect(t.Context(), e,
		&parley.Request{Prompt: []parley.Token{1}, MaxTokens: 50, Stop: parley.Stop{Tokens: []parley.Token{16}}})
	if err != nil || !slices.Equal(got[0], []parley.Token{2, 4, 8, 16}) || last.Finish != parley.FinishStop {
		t.Errorf("stop token: got %v, %v, %+v", got, err, last)
	}
}

func TestPromptLogprobsCoverThePrompt(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	prompt := make([]parley.Token, 30) // more rows than one step has outputs
	for i := range prompt {
		prompt[i] = parley.Token(i)
	}
	first := true
	for d, err := range e.Generate(t.Context(),
		&parley.Request{Prompt: prompt, MaxTokens: 2, PromptLogprobs: true, Logprobs: true, TopLogprobs: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		if first != (d.PromptLogprobs != nil) || len(d.Logprobs) != 1 || len(d.Logprobs[0].Top) != 2 {
			t.Errorf("delta %+v", d)
		}
		if first && len(d.PromptLogprobs) != 29 {
			t.Errorf("%d prompt log-probabilities, want 29", len(d.PromptLogprobs))
		}
		for i, lp := range d.PromptLogprobs {
			if lp.Token != prompt[i+1] {
				t.Errorf("prompt log-probability %d is about token %d", i, lp.Token)
			}
		}
		first = false
	}
}

func TestRefusals(t *testing.T) {
	e := newCounter(t, &counter{}, sched.Config{Blocks: 10, StepTokens: 8, StepOutputs: 8, Seqs: 4})
	for name, f := range map[string]struct {
		r    parley.Request
		code parley.Code
		says string
	}{
		"empty":    {parley.Request{}, parley.InvalidRequest, "at least one token"},
		"foreign":  {parley.Request{Prompt: []parley.Token{100}}, parley.InvalidRequest, "0 to 99"},
		"negative": {parley.Request{Prompt: []parley.Token{-1}}, parley.InvalidRequest, "0 to 99"},
		"long":     {parley.Request{Prompt: make([]parley.Token, 256)}, parley.ContextTooLong, "256"},
		"memory": {parley.Request{Prompt: make([]parley.Token, 100), MaxTokens: 100}, parley.ContextTooLong,
			"160 tokens"},
		"choices": {parley.Request{Prompt: make([]parley.Token, 1), MaxTokens: 1, Choices: 5}, parley.InvalidRequest,
			"at most 4"},
		"temper": {parley.Request{Prompt: make([]parley.Token, 1), MaxTokens: 1,
			Sampling: parley.Sampling{Temperature: -1}}, parley.InvalidRequest, "temperature"},
	} {
		_, _, err := collect(t.Context(), e, &f.r)
		if parley.CodeOf(err) != f.code || !strings.Contains(err.Error(), f.says) {
			t.Errorf("%s: %v (%s), want %s saying %q", name, err, parley.CodeOf(err), f.code, f.says)
		}
	}
}

func TestCancelAtEveryStep(t *testing.T) {
	for after := range 12 {
		synctest.Test(t, func(t *testing.T) {
			n := &counter{delay: time.Millisecond}
			e := newCounter(t, n, small)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(time.Duration(after)*time.Millisecond+time.Microsecond, cancel)
			var seen error
			for _, err := range e.Generate(ctx,
				&parley.Request{Prompt: make([]parley.Token, 100), MaxTokens: 100, Choices: 2}) {
				seen = err
			}
			if parley.CodeOf(seen) != parley.Cancelled {
				t.Errorf("after %d steps: %v", after, seen)
			}
			synctest.Wait()
			if steps := n.steps; steps > after+1 {
				t.Errorf("cancelled after %d steps, but %d began", after, steps)
			}
			time.Sleep(2 * time.Millisecond)
			if load := e.Stats().Load; load.Pool.InUse != 0 {
				t.Errorf("cancelled after %d steps, and %d blocks are held", after, load.Pool.InUse)
			}
		})
	}
}

func TestLeavingTheLoopCancels(t *testing.T) {
	e := newCounter(t, &counter{}, small)
	for range e.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 200}) {
		break
	}
}

// TestSlowReaderPausesItself has one reader that does not read and one that
// does. The first one's request stops being computed once its mailbox is full,
// the other goes on at full speed, and when the first reads again it gets
// every token.
func TestSlowReaderPausesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{delay: time.Millisecond, room: 1000},
			sched.Config{Blocks: 200, StepTokens: 24, StepOutputs: 10, Seqs: 8})
		prompt := []parley.Token{1}
		var slow, fast []parley.Token
		for d, err := range e.Generate(t.Context(),
			&parley.Request{Prompt: prompt, MaxTokens: 800, Stop: parley.Stop{IgnoreEnd: true}}) {
			if err != nil {
				t.Fatal(err)
			}
			if slow = append(slow, d.Tokens...); len(slow) == 1 {
				time.Sleep(time.Second) // enough for the whole answer
				if steps := e.Stats().Steps; steps > 2*mailboxFull {
					t.Errorf("%d steps were computed for nobody", steps)
				}
				got, _, err := collect(t.Context(), e,
					&parley.Request{Prompt: prompt, MaxTokens: 50, Stop: parley.Stop{IgnoreEnd: true}})
				if fast = got[0]; err != nil {
					t.Error(err)
				}
			}
		}
		if want := expect(prompt, 800); !slices.Equal(slow, want) || !slices.Equal(fast, want[:50]) {
			t.Errorf("the slow reader got %d tokens, the fast one %d", len(slow), len(fast))
		}
		if e.Stats().Pauses == 0 {
			t.Error("the slow reader's request was never paused")
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{delay: time.Second}, small)
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		got, _, err := collect(ctx, e, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 100})
		if parley.CodeOf(err) != parley.DeadlineExceeded || len(got[0]) != 5 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestRequestDeadline lets a request's own deadline pass while it is computed
// and while it waits.
func TestRequestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := small
		cfg.Seqs = 1
		e := newCounter(t, &counter{delay: time.Second}, cfg)
		var wg sync.WaitGroup
		for i, wait := range []time.Duration{5500 * time.Millisecond, 2500 * time.Millisecond} {
			wg.Go(func() {
				got, _, err := collect(t.Context(), e,
					&parley.Request{Prompt: []parley.Token{1}, MaxTokens: 100, Deadline: time.Now().Add(wait)})
				if parley.CodeOf(err) != parley.DeadlineExceeded || len(got[0]) > 6 {
					t.Errorf("request %d: %v, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

func TestPanicFailsItsPassAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &counter{delay: time.Millisecond, fault: func(step *compute.Step) {
			if slices.Contains(step.Tokens, 66) {
				panic("a broken kernel")
			}
		}}
		e := newCounter(t, n, small)
		_, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{66}, MaxTokens: 3})
		if err == nil || parley.CodeOf(err) != parley.Internal || !strings.Contains(err.Error(), "a broken kernel") {
			t.Errorf("the broken request gave %v", err)
		}
		got, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 3})
		if err != nil || !slices.Equal(got[0], expect([]parley.Token{1}, 3)) {
			t.Errorf("the next request gave %v, %v", got, err)
		}
		if e.Stats().Failures != 1 {
			t.Errorf("stats %+v", e.Stats())
		}
	})
}

// TestFaultOutsideAPass breaks the clock under the scheduler. The requests in
// the engine fail, and the next one is served.
func TestFaultOutsideAPass(t *testing.T) {
	var left atomic.Int32 // readings before the clock breaks, once
	n := &counter{clock: func() time.Time {
		if left.Add(-1) == 0 {
			panic("no time")
		}
		return time.Now()
	}}
	n.fault = func(step *compute.Step) {
		if slices.Contains(step.Tokens, 66) {
			left.Store(2) // the pass reads it once more, then the scheduler is asked
		}
	}
	e := newCounter(t, n, small)
	if _, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{66}, MaxTokens: 90}); err == nil ||
		!strings.Contains(err.Error(), "no time") || strings.Contains(err.Error(), "the step failed") {
		t.Errorf("the request gave %v", err)
	}
	got, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 3})
	if err != nil || !slices.Equal(got[0], expect([]parley.Token{1}, 3)) {
		t.Errorf("the next request gave %v, %v", got, err)
	}
}

func TestCloseFailsWhatIsNotComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newCounter(t, &counter{delay: time.Second}, small)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{1}, MaxTokens: 100})
			if parley.CodeOf(err) != parley.Unavailable {
				t.Errorf("the running request gave %v", err)
			}
		})
		time.Sleep(2500 * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		_, _, err := collect(t.Context(), e, &parley.Request{Prompt: []parley.Token{1}})
		if parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("a request after Close gave %v", err)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{})
	for _, want := range []string{"blocks", "vocabulary", "context"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an empty config gave %v, which does not name %s", err, want)
		}
	}
	if _, err := New(Config{Vocab: 1, Model: parley.Model{ContextTokens: 1},
		Sched: sched.Config{Blocks: 1, StepTokens: 1, StepOutputs: 1, Seqs: 2}}); err == nil {
		t.Error("more sequences than a step has tokens were accepted")
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
