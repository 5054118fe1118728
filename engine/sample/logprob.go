package sample

import (
	"fmt"
	"math"
	"slices"

	"parley"
	"parley/compute"
)

// LeastLogprob stands for the log-probability of a token that cannot be
// chosen, and is the least that is ever reported: minus infinity has no
// spelling in JSON. It is the number OpenAI uses.
const LeastLogprob = -9999

// Logprobs returns the log-probability of token under the softmax of the raw
// logits, and beside it the top most probable tokens, best first, equal ones
// by id. Fewer come back if fewer can be chosen at all.
func Logprobs(logits []float32, token parley.Token, top int, scratch *Scratch) parley.Logprob {
	top = max(0, min(top, len(logits)))
	entry, _ := logprobs(logits, token, top, make([]parley.TopLogprob, 0, top), scratch)
	return entry
}

// AppendLogprobs appends to dst what [Logprobs] returns for each of tokens:
// logits holds one row of scores for each, and row i is the model's opinion
// of tokens[i]. It is meant for a prompt, whose rows come many at a time; all
// of them together cost one allocation for the alternatives. It fails if
// logits are not the same number of scores for each token.
func AppendLogprobs(dst []parley.Logprob, logits []float32, tokens []parley.Token, top int,
	scratch *Scratch) ([]parley.Logprob, error) {
	if len(tokens) == 0 {
		return dst, nil
	}
	if len(logits)%len(tokens) != 0 {
		return dst, fmt.Errorf("%d scores are not the same number for each of %d tokens: pass whole rows", len(logits),
			len(tokens))
	}
	vocab := len(logits) / len(tokens)
	top = max(0, min(top, vocab))
	dst = slices.Grow(dst, len(tokens))
	alternatives := make([]parley.TopLogprob, 0, top*len(tokens))
	for i, token := range tokens {
		var entry parley.Logprob
		entry, alternatives = logprobs(logits[i*vocab:(i+1)*vocab], token, top, alternatives, scratch)
		dst = append(dst, entry)
	}
	return dst, nil
}

// logprobs does one row. It appends the alternatives to those of other rows
// and returns them all.
func logprobs(logits []float32, token parley.Token, top int, alternatives []parley.TopLogprob,
	scratch *Scratch) (parley.Logprob, []parley.TopLogprob) {
	c := survey(logits, token, top, scratch.top[:0], scratch)
	scratch.top = c.Top[:0]
	return logprobOf(&c, top, alternatives)
}

// LogprobOf returns the log-probability of a choice, if its draw asked for it, with the given number of alternatives.
func LogprobOf(c *compute.DrawResult, top int) parley.Logprob {
	entry, _ := logprobOf(c, top, make([]parley.TopLogprob, 0, len(c.Top)))
	return entry
}

func logprobOf(c *compute.DrawResult, top int, alternatives []parley.TopLogprob) (parley.Logprob, []parley.TopLogprob) {
	n := normOf(c)
	entry := parley.Logprob{Token: c.Token, Logprob: n.logprob(c.Score)}
	if top == 0 {
		return entry, alternatives
	}
	start := len(alternatives)
	for _, t := range c.Top {
		alternatives = append(alternatives, parley.TopLogprob{Token: t.Token, Logprob: n.logprob(t.Score)})
	}
	entry.Top = alternatives[start:len(alternatives):len(alternatives)]
	return entry, alternatives
}

// survey returns what the log-probabilities of token and of the top best ones are
// computed of. It appends the best to best.
func survey(logits []float32, token parley.Token, top int, best []compute.TokenScore,
	scratch *Scratch) compute.DrawResult {
	row, at := scratch.finite(logits)
	c := compute.DrawResult{TokenScore: compute.TokenScore{Token: token, Score: float32(math.Inf(-1))}, Top: best}
	if token >= 0 && int(token) < len(row) {
		c.Score = row[token]
	}
	if at >= 0 {
		c.Peak = row[at]
		c.Sum = scratch.sum(row, curveOf(c.Peak, 1))
	}
	if top > 0 {
		for _, k := range scratch.rank(row, top) {
			c.Top = append(c.Top, compute.TokenScore{Token: parley.Token(k.index()), Score: k.score()})
		}
	}
	return c
}

// sum adds up the weights of scores in the order that [compute.DrawResult] gives.
func (sc *Scratch) sum(scores []float32, c curve) float64 {
	lanes := &sc.lanes
	clear(lanes[:])
	for i, score := range scores {
		if steps := c.steps(score); steps < faintSteps {
			lanes[i%compute.DrawLanes] += fade(steps)
		}
	}
	for half := compute.DrawLanes / 2; half > 0; half /= 2 {
		for i := range half {
			lanes[i] += lanes[i+half]
		}
	}
	return lanes[0]
}

// A norm is the logarithm of the sum of e^score over a row, kept in two parts:
// added up, a large peak would swallow the rest.
type norm struct{ peak, logSum float64 }

// normOf returns the norm of a row; no token has a score where its sum is 0. The sum is
// relative to the peak, so nothing overflows.
func normOf(c *compute.DrawResult) norm {
	if c.Sum == 0 {
		return norm{logSum: math.Inf(1)}
	}
	return norm{float64(c.Peak), math.Log(c.Sum)}
}

// logprob returns score less the norm, at least LeastLogprob; a NaN is the least.
func (n norm) logprob(score float32) float32 {
	if logprob := float64(score) - n.peak - n.logSum; logprob > LeastLogprob {
		return float32(logprob)
	}
	return LeastLogprob
}
