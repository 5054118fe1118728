package cuda

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parley"
	"parley/compute"
	"parley/engine/sample"
	"parley/internal/testkit"
)

// randomScores makes rows in which scores tie or lie close together, and some are not numbers.
func randomScores(rng *rand.Rand, vocab int) []float32 {
	scores := make([]float32, vocab)
	kind, scale := rng.IntN(7), math.Exp(rng.Float64()*6-2)
	for i := range scores {
		scores[i] = float32(rng.NormFloat64() * scale)
		switch {
		case kind == 0:
			scores[i] = float32(rng.IntN(3)) - 1 // ties, zero among them
		case kind == 1 && rng.IntN(4) == 0:
			scores[i] = float32(math.Inf(rng.IntN(3) - 1))
		case kind == 2 && rng.IntN(3) == 0:
			scores[i] = float32(math.NaN())
		case kind == 3:
			scores[i] = float32(math.Copysign(0, rng.Float64()-0.5))
		case kind == 4 && i%7 > 0:
			scores[i] = float32(math.Inf(-1))
		case kind == 5:
			scores[i] = 1 + float32(rng.IntN(5000))*0x1p-23 // all of nearly the same weight
		}
	}
	return scores
}

func randomSampling(rng *rand.Rand) parley.Sampling {
	maybe := func(v float64) float32 { return float32(rng.IntN(2)) * float32(v) }
	return parley.Sampling{
		Temperature: maybe(rng.ExpFloat64()),
		TopK:        rng.IntN(2) * rng.IntN(50),
		TopP:        maybe(rng.Float64()),
		MinP:        maybe(rng.Float64() * 0.3),
		Seed:        rng.Uint64(),
	}
}

// randomDraw makes a draw, of which half have more than numbers: penalties and bias, also of
// tokens that the step before chose, tokens to steer to, masks, and log-probabilities.
func randomDraw(rng *rand.Rand, vocab, before int) compute.Draw {
	settings, n := randomSampling(rng), rng.IntN(1000)
	token := func() parley.Token { return parley.Token(rng.IntN(vocab)) }
	if rng.IntN(2) == 0 {
		return sample.New(settings, nil, vocab, rng.IntN(3)).Draw(n)
	}
	if rng.IntN(2) == 0 {
		settings.RepetitionPenalty = 0.5 + rng.Float32()
	}
	if rng.IntN(2) == 0 {
		settings.PresencePenalty, settings.FrequencyPenalty = rng.Float32()*4-2, rng.Float32()*4-2
	}
	settings.LogitBias = map[parley.Token]float32{}
	for range rng.IntN(3) {
		settings.LogitBias[token()] = rng.Float32()*20 - 10
	}
	var prompt []parley.Token
	for range rng.IntN(2) * rng.IntN(2000) {
		prompt = append(prompt, token())
	}
	s := sample.New(settings, prompt, vocab, rng.IntN(3))
	for range rng.IntN(30) {
		s.Accept(token())
	}
	d := s.Draw(n)
	if d.Adjust.Counts() {
		d.Adjust.Coming = rng.IntN(before + 1)
	}
	if rng.IntN(3) == 0 {
		s.Steer(&d, []parley.Token{token()}, rng.Float32()*12)
	}
	d.Logprobs, d.TopLogprobs = rng.IntN(2) == 0, rng.IntN(compute.DrawTopMost+1)*rng.IntN(2)
	if rng.IntN(2) == 0 {
		for range (vocab + 63) / 64 {
			d.Mask = append(d.Mask, rng.Uint64()&rng.Uint64())
		}
	}
	return d
}

// TestChooseIsThatOfTheHost draws tokens from random rows with random settings, ties
// and numbers that are none included, after a step that chose others: the device chooses
// what engine/sample does, and finds the same log-probabilities to the bit.
func TestChooseIsThatOfTheHost(t *testing.T) {
	c := newBackend(t)
	rng := rand.New(rand.NewPCG(1, 1))
	var scratch sample.Scratch
	for _, vocab := range []int{1, 2, 31, 700, 1500, 9000} {
		const rows = 24
		if err := c.Reserve(compute.Limits{Rows: rows, Outputs: rows, Width: 8}); err != nil {
			t.Fatal(err)
		}
		var before []compute.DrawResult
		for step := range 2 {
			var scores []float32
			var draws []compute.Draw
			for range rows {
				scores = append(scores, randomScores(rng, vocab)...)
				draws = append(draws, randomDraw(rng, vocab, len(before)))
			}
			chosen := slices.Clone(c.chooseFrom(t, scores, vocab, draws))
			for i, got := range chosen {
				want, err := sample.Drawn(&draws[i], before, scores[i*vocab:][:vocab], &scratch)
				if err != nil && !errors.Is(err, sample.ErrNoToken) {
					t.Fatal(err)
				}
				if len(want.Top)+len(got.Top) == 0 {
					want.Top, got.Top = nil, nil
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("step %d of %d: %+v chooses %+v, the host %+v", step, vocab, draws[i], got, want)
				}
			}
			before = chosen
		}
	}
}

// TestDrawsOfManySizes draws with penalties of more and more tokens, so that the memory for them grows
// while another step is under way.
func TestDrawsOfManySizes(t *testing.T) {
	const vocab = 20000
	c := newBackend(t)
	if err := c.Reserve(compute.Limits{Rows: 2, Outputs: 2, Width: 8}); err != nil {
		t.Fatal(err)
	}
	var scratch sample.Scratch
	scores := make([]float32, 2*vocab)
	for i := range scores {
		scores[i] = float32(i * 7919 % 1000)
	}
	upload(t, c, scores)
	for i, tokens := range []int{1, 3000, 9000, 20000} {
		var draws []compute.Draw
		for row := range 2 {
			prompt := make([]parley.Token, tokens)
			for j := range prompt {
				prompt[j] = parley.Token((j*31 + row) % vocab)
			}
			s := sample.New(parley.Sampling{RepetitionPenalty: 1.5}, prompt, vocab, 0)
			draws = append(draws, s.Draw(0))
		}
		c.drawTokens(draws[:1], vocab)
		upload(t, c, scores) // the first has changed them
		c.drawTokens(draws, vocab)
		upload(t, c, scores)
		want, err := sample.Drawn(&draws[0], nil, scores[:vocab], &scratch)
		if got := c.AwaitChosen(); err != nil || len(got) != 1 || got[0].Token != want.Token {
			t.Errorf("step %d chose %v, the host %v, %v", i, got, want, err)
		}
		if got := c.AwaitChosen(); len(got) != 2 || got[0].Token != want.Token {
			t.Errorf("step %d chose %v again, the host %v", i, got, want)
		}
	}
}

// upload makes scores those that tokens are drawn from.
func upload(t *testing.T, c *CUDA, scores []float32) {
	t.Helper()
	at := c.grow(&c.logits, int64(4*len(scores)), "logits")
	if err := first(c.failed, c.driver.Upload(at, bytesOf(scores)), c.driver.Synchronize()); err != nil {
		t.Fatal(err)
	}
}

// chooseFrom draws from scores that did not come from a network.
func (c *CUDA) chooseFrom(t *testing.T, scores []float32, vocab int, draws []compute.Draw) []compute.DrawResult {
	t.Helper()
	upload(t, c, scores)
	c.drawTokens(draws, vocab)
	return c.AwaitChosen()
}

// samplersOf returns one for each prompt, at several temperatures; the last one has penalties.
func samplersOf(prompts [][]parley.Token, vocab int) (all []*sample.Sampler) {
	for i, p := range prompts {
		s := parley.Sampling{Temperature: float32(i), TopP: 0.95, TopK: 40 * (i % 2), Seed: 42}
		if i == len(prompts)-1 {
			s.RepetitionPenalty, s.FrequencyPenalty, s.PresencePenalty = 1.3, 0.7, 0.4
		}
		all = append(all, sample.New(s, p, vocab, i))
	}
	return all
}

// pipelined generates tokens after prompts: each step is launched before it is known
// what the one before chose. Then it returns the tokens that the steps chose, and the last log-probabilities.
func (r *runner) pipelined(prompts [][]parley.Token, steps int) (said [][]parley.Token, last []parley.Logprob) {
	said = make([][]parley.Token, len(prompts))
	samplers := samplersOf(prompts, r.m.Vocab())
	land := func() {
		last = nil
		for i, chosen := range r.m.AwaitChosen() {
			said[i] = append(said[i], chosen.Token)
			samplers[i].Accept(chosen.Token)
			last = append(last, sample.LogprobOf(&chosen, 3))
		}
	}
	for n := range steps {
		step, draws := r.stepOf(prompts, n, compute.Chosen), []compute.Draw(nil)
		for i := range prompts {
			d := samplers[i].Draw(min(n, 1))
			if n > 0 && d.Adjust.Counts() {
				d.Adjust.Coming = i + 1
			}
			d.Logprobs, d.TopLogprobs = true, 3
			draws = append(draws, d)
		}
		r.m.Launch(step, draws)
		if n > 0 {
			land()
		}
	}
	land()
	return said, last
}

// stepOf is the n-th step: the prompts first, then one token for each.
func (r *runner) stepOf(prompts [][]parley.Token, n int, last func(seq int) parley.Token) *compute.Step {
	step, per := &compute.Step{}, len(r.blocks)/len(prompts)
	for i, p := range prompts {
		q := compute.Seq{Row: len(step.Tokens), Rows: len(p), Blocks: r.blocks[i*per : (i+1)*per]}
		if n > 0 {
			q.Rows, q.Past, p = 1, len(p)+n-1, []parley.Token{last(i)}
		}
		step.Seqs, step.Tokens = append(step.Seqs, q), append(step.Tokens, p...)
		step.Outputs = append(step.Outputs, int32(len(step.Tokens)-1))
	}
	return step
}

// TestStepsAheadSayTheSame generates with steps that are launched ahead, and one by
// one with the host's choice of every token.
func TestStepsAheadSayTheSame(t *testing.T) {
	steps := 4
	if *everyCase {
		steps = 8
	}
	dir := testkit.Golden("tiny-qwen3")
	prompts := [][]parley.Token{{5, 9, 2}, {7}, {3, 1, 4, 1, 5}}
	got, gotLast := newRunner(t, dir, newBackend(t), compute.KVBF16).pipelined(prompts, steps)

	r, said := newRunner(t, dir, newBackend(t), compute.KVBF16), make([][]parley.Token, len(prompts))
	samplers := samplersOf(prompts, r.m.Vocab())
	var last []parley.Logprob
	var scratch sample.Scratch
	for n := range steps {
		spoken := func(seq int) parley.Token { return said[seq][n-1] }
		last = nil
		for i, row := range r.forward(r.stepOf(prompts, n, spoken)) {
			tok, err := samplers[i].Choose(row, &scratch)
			if err != nil {
				t.Fatal(err)
			}
			samplers[i].Accept(tok)
			said[i], last = append(said[i], tok), append(last, sample.Logprobs(row, tok, 3, &scratch))
		}
	}
	if !reflect.DeepEqual(got, said) || !reflect.DeepEqual(gotLast, last) {
		t.Errorf("ahead %v with %v, one by one %v with %v", got, gotLast, said, last)
	}
}
