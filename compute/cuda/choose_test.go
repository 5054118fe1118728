package cuda

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"parley"
	"parley/compute"
	"parley/engine/sample"
	"parley/internal/testkit"
)

// randomScores makes rows in which scores tie, and some are not numbers.
func randomScores(rng *rand.Rand, vocab int) []float32 {
	scores := make([]float32, vocab)
	kind, scale := rng.IntN(6), math.Exp(rng.Float64()*6-2)
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

// TestChooseIsThatOfTheHost draws tokens from random rows with random settings, ties
// and numbers that are none included: the device chooses what engine/sample does.
func TestChooseIsThatOfTheHost(t *testing.T) {
	c := newBackend(t)
	rng := rand.New(rand.NewPCG(1, 1))
	var scratch sample.Scratch
	for _, vocab := range []int{1, 2, 31, 700, 1500, 9000} {
		const rows = 24
		if err := c.Reserve(compute.Limits{Rows: rows, Outputs: rows, Width: 8}); err != nil {
			t.Fatal(err)
		}
		var scores []float32
		var draws []compute.Draw
		for range rows {
			s := sample.New(randomSampling(rng), nil, vocab, rng.IntN(3))
			d, plain := s.Draw(rng.IntN(1000))
			if !plain {
				t.Fatal("scores are adjusted")
			}
			scores, draws = append(scores, randomScores(rng, vocab)...), append(draws, d)
		}
		for i, got := range c.chooseFrom(t, scores, vocab, draws) {
			want, err := sample.Drawn(&draws[i], scores[i*vocab:][:vocab], &scratch)
			if errors.Is(err, sample.ErrNoToken) {
				want, err = -1, nil
			}
			if err != nil || got != want {
				t.Errorf("of %d: %+v chooses %d, the host %d, %v", vocab, draws[i], got, want, err)
			}
		}
	}
}

// chooseFrom draws from scores that did not come from a network.
func (c *CUDA) chooseFrom(t *testing.T, scores []float32, vocab int, draws []compute.Draw) []parley.Token {
	t.Helper()
	at := c.grow(&c.logits, int64(4*len(scores)), "logits")
	if err := first(c.failed, c.driver.Upload(at, bytesOf(scores)), c.driver.Synchronize()); err != nil {
		t.Fatal(err)
	}
	c.drawTokens(draws, vocab)
	return c.AwaitChosen()
}

// A drawFunc returns how the n-th token of a sequence is drawn.
type drawFunc func(seq, n int) compute.Draw

// pipelined generates tokens after prompts: each step is launched before it is known
// what the one before chose. Then it says what each step chose.
func (r *runner) pipelined(prompts [][]parley.Token, steps int, drawOf drawFunc) (said [][]parley.Token) {
	said = make([][]parley.Token, len(prompts))
	land := func() {
		for i, tok := range r.m.AwaitChosen() {
			said[i] = append(said[i], tok)
		}
	}
	for n := range steps {
		step, draws := r.stepOf(prompts, n, compute.Chosen), []compute.Draw(nil)
		for i := range prompts {
			draws = append(draws, drawOf(i, n))
		}
		r.m.Launch(step, draws)
		if n > 0 {
			land()
		}
	}
	land()
	return said
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
	const steps = 8
	dir := testkit.Golden("tiny-qwen3")
	prompts := [][]parley.Token{{5, 9, 2}, {7}, {3, 1, 4, 1, 5}}
	drawOf := func(seq, n int) compute.Draw {
		s := parley.Sampling{Temperature: float32(seq), TopP: 0.95, TopK: 40 * (seq % 2), Seed: 42}
		d, _ := sample.New(s, nil, 512, seq).Draw(n)
		return d
	}
	got := newRunner(t, dir, newBackend(t), compute.KVBF16).pipelined(prompts, steps, drawOf)

	r, said := newRunner(t, dir, newBackend(t), compute.KVBF16), make([][]parley.Token, len(prompts))
	var scratch sample.Scratch
	for n := range steps {
		last := func(seq int) parley.Token { return said[seq][n-1] }
		for i, row := range r.forward(r.stepOf(prompts, n, last)) {
			d := drawOf(i, n)
			tok, err := sample.Drawn(&d, row, &scratch)
			if err != nil {
				t.Fatal(err)
			}
			said[i] = append(said[i], tok)
		}
	}
	if !reflect.DeepEqual(got, said) {
		t.Errorf("ahead %v, one by one %v", got, said)
	}
}
