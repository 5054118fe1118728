package sample

import (
	"math"

	"parley"
	"parley/compute"
)

// adjustments change the scores of the tokens that were seen or biased. They
// cost as much as there are such tokens, whatever the size of the vocabulary.
type adjustments struct {
	compute.Adjust
	vocab int
	at    map[parley.Token]int
	// steered is Tokens with those that are steered to.
	steered []compute.Adjustment
}

func newAdjustments(s parley.Sampling, prompt []parley.Token, vocab int) adjustments {
	a := adjustments{
		Adjust: compute.Adjust{
			Repetition: s.RepetitionPenalty,
			Presence:   finiteOrZero(s.PresencePenalty),
			Frequency:  finiteOrZero(s.FrequencyPenalty),
		},
		vocab: vocab,
		at:    make(map[parley.Token]int),
	}
	if !(a.Repetition > 0 && a.Repetition <= math.MaxFloat32) {
		a.Repetition = 1
	}
	for token, bias := range s.LogitBias {
		if entry := a.entry(token); entry != nil {
			entry.Bias = finiteOrZero(bias)
		}
	}
	if a.Repetition != 1 {
		for _, token := range prompt {
			if entry := a.entry(token); entry != nil {
				entry.Answered = compute.InPrompt
			}
		}
	}
	return a
}

// entry returns the adjustment of token, or nil if there is no such token.
// The pointer is good until the next call.
func (a *adjustments) entry(token parley.Token) *compute.Adjustment {
	if token < 0 || int(token) >= a.vocab {
		return nil
	}
	at, known := a.at[token]
	if !known {
		at = len(a.Tokens)
		a.at[token] = at
		a.Tokens = append(a.Tokens, compute.Adjustment{Token: token})
	}
	return &a.Tokens[at]
}

// answer counts one more occurrence of token in the answer.
func (a *adjustments) answer(token parley.Token) {
	if !a.Counts() {
		return
	}
	if entry := a.entry(token); entry != nil {
		entry.Answer()
	}
}

// apply returns the adjusted logits: the same slice if there is nothing to
// adjust, else a copy in scratch.
func apply(a *compute.Adjust, logits []float32, scratch *Scratch) []float32 {
	if len(a.Tokens) == 0 {
		return logits
	}
	scores := scratch.copyOf(logits)
	for _, token := range a.Tokens {
		scores[token.Token] = adjusted(a, scores[token.Token], token)
	}
	return scores
}

// adjusted applies the steps to one score. The conversions keep the compiler
// from fusing a product and a sum, which would round differently per machine.
func adjusted(a *compute.Adjust, score float32, token compute.Adjustment) float32 {
	score = clean(score+token.Steer) + token.Bias
	switch {
	case token.Answered == 0:
	case score > 0:
		score /= a.Repetition
	default:
		score = float32(score * a.Repetition)
	}
	if token.Answered > 0 {
		score -= float32(float32(token.Answered) * a.Frequency)
		score -= a.Presence
	}
	return clean(score)
}

func finiteOrZero(x float32) float32 {
	if isFinite(x) {
		return x
	}
	return 0
}

func isFinite(x float32) bool { return x >= -math.MaxFloat32 && x <= math.MaxFloat32 }
