package sample

import (
	"math"

	"parley"
)

// An adjustment is what is known of one token whose score is not taken as it is.
type adjustment struct {
	token parley.Token
	bias  float32
	// seen is whether the token is in the prompt or the answer, and answered
	// how often it is in the answer.
	seen     bool
	answered int32
}

// adjustments change the scores of the tokens that were seen or biased. They
// cost as much as there are such tokens, whatever the size of the vocabulary.
type adjustments struct {
	vocab                           int
	repetition, presence, frequency float32
	tokens                          []adjustment
	at                              map[parley.Token]int
}

func newAdjustments(s parley.Sampling, prompt []parley.Token, vocab int) adjustments {
	a := adjustments{
		vocab:      vocab,
		repetition: s.RepetitionPenalty,
		presence:   finiteOrZero(s.PresencePenalty),
		frequency:  finiteOrZero(s.FrequencyPenalty),
		at:         make(map[parley.Token]int),
	}
	if !(a.repetition > 0 && a.repetition <= math.MaxFloat32) {
		a.repetition = 1
	}
	for token, bias := range s.LogitBias {
		if entry := a.entry(token); entry != nil {
			entry.bias = finiteOrZero(bias)
		}
	}
	if a.repetition != 1 {
		for _, token := range prompt {
			if entry := a.entry(token); entry != nil {
				entry.seen = true
			}
		}
	}
	return a
}

// entry returns the adjustment of token, or nil if there is no such token.
// The pointer is good until the next call.
func (a *adjustments) entry(token parley.Token) *adjustment {
	if token < 0 || int(token) >= a.vocab {
		return nil
	}
	at, known := a.at[token]
	if !known {
		at = len(a.tokens)
		a.at[token] = at
		a.tokens = append(a.tokens, adjustment{token: token})
	}
	return &a.tokens[at]
}

// answer counts one more occurrence of token in the answer.
func (a *adjustments) answer(token parley.Token) {
	if a.repetition == 1 && a.presence == 0 && a.frequency == 0 {
		return
	}
	if entry := a.entry(token); entry != nil {
		entry.seen = true
		entry.answered++
	}
}

// apply returns the adjusted logits: the same slice if there is nothing to
// adjust, else a copy in scratch.
func (a *adjustments) apply(logits []float32, scratch *Scratch) []float32 {
	if len(a.tokens) == 0 {
		return logits
	}
	scores := scratch.copyOf(logits)
	for _, token := range a.tokens {
		scores[token.token] = a.adjusted(scores[token.token], token)
	}
	return scores
}

// adjusted applies the steps to one score. The conversions keep the compiler
// from fusing a product and a sum, which would round differently per machine.
func (a *adjustments) adjusted(score float32, token adjustment) float32 {
	score = clean(score) + token.bias
	switch {
	case token.seen && score > 0:
		score /= a.repetition
	case token.seen:
		score = float32(score * a.repetition)
	}
	if token.answered > 0 {
		score -= float32(float32(token.answered) * a.frequency)
		score -= a.presence
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
