package sample

import (
	"fmt"
	"math"
	"slices"

	"parley"
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
	row, best := scratch.finite(logits)
	n := normOf(row, best)
	entry := parley.Logprob{Token: token, Logprob: LeastLogprob}
	if token >= 0 && int(token) < len(row) {
		entry.Logprob = n.logprob(row[token])
	}
	if top == 0 {
		return entry, alternatives
	}
	start := len(alternatives)
	for _, k := range scratch.rank(row, top) {
		alternatives = append(alternatives,
			parley.TopLogprob{Token: parley.Token(k.index()), Logprob: n.logprob(k.score())})
	}
	entry.Top = alternatives[start:len(alternatives):len(alternatives)]
	return entry, alternatives
}

// A norm is the logarithm of the sum of e^score over a row, kept in two parts:
// added up, a large peak would swallow the rest.
type norm struct{ peak, logSum float64 }

// normOf returns the norm of scores, whose best is at that index, or -1 if
// there is none. The sum is relative to the peak, so nothing overflows.
func normOf(scores []float32, best int) norm {
	if best < 0 {
		return norm{logSum: math.Inf(1)}
	}
	c := curveOf(scores[best], 1)
	sum := 0.0
	for _, score := range scores {
		if steps := c.steps(score); steps < faintSteps {
			sum += fade(steps)
		}
	}
	return norm{c.peak, math.Log(sum)}
}

// logprob returns score less the norm, at least LeastLogprob; a NaN is the least.
func (n norm) logprob(score float32) float32 {
	if logprob := float64(score) - n.peak - n.logSum; logprob > LeastLogprob {
		return float32(logprob)
	}
	return LeastLogprob
}
