package sample

import (
	"math"

	"parley"
	"parley/compute"
)

// Draw returns how the token after n more ones is chosen. Tokens that are not accepted yet
// are not counted by its penalties; see [compute.Adjust]. It is valid until the sampler is
// used again.
func (s *Sampler) Draw(n int) compute.Draw {
	return compute.Draw{
		Seed:        s.seed,
		Choice:      s.choice,
		Position:    s.position + uint64(n),
		Greedy:      s.greedy,
		TopK:        s.topK,
		Temperature: s.temperature,
		TopP:        s.topP,
		MinPSteps:   s.minPSteps,
		Adjust:      s.adjust.Adjust,
	}
}

// Steer adds to the scores of tokens in a draw that the sampler returned.
func (s *Sampler) Steer(d *compute.Draw, tokens []parley.Token, by float32) {
	all := append(s.adjust.steered[:0], d.Adjust.Tokens...)
	for _, token := range tokens {
		at, known := s.adjust.at[token]
		if !known {
			at = len(all)
			all = append(all, compute.Adjustment{Token: token})
		}
		all[at].Steer += by
	}
	s.adjust.steered, d.Adjust.Tokens = all, all
}

// Drawn returns what d draws from logits: the definition of what a device must choose.
// Before is what the step before chose.
func Drawn(d *compute.Draw, before []compute.DrawResult, logits []float32,
	scratch *Scratch) (compute.DrawResult, error) {
	s := Sampler{
		seed:        d.Seed,
		choice:      d.Choice,
		position:    d.Position,
		vocab:       len(logits),
		greedy:      d.Greedy,
		topK:        d.TopK,
		temperature: d.Temperature,
		topP:        d.TopP,
		minPSteps:   d.MinPSteps,
	}
	s.adjust.Adjust = d.Adjust
	if d.Adjust.Coming > 0 {
		s.adjust.Tokens = withAnswer(d.Adjust.Tokens, before[d.Adjust.Coming-1].Token)
	}
	scores := logits
	if d.Mask != nil {
		scores = append([]float32(nil), logits...)
		for t := range scores {
			if d.Mask[t/64]>>(t%64)&1 == 0 {
				scores[t] = float32(math.Inf(-1))
			}
		}
	}
	token, err := s.Choose(scores, scratch)
	if err != nil {
		return compute.DrawResult{TokenScore: compute.TokenScore{Token: -1}}, err
	}
	if d.Logprobs {
		return survey(logits, token, d.TopLogprobs, nil, scratch), nil
	}
	return compute.DrawResult{TokenScore: compute.TokenScore{Token: token}}, nil
}

// withAnswer returns a copy of tokens with one more occurrence of token in the answer.
func withAnswer(tokens []compute.Adjustment, token parley.Token) []compute.Adjustment {
	tokens = append([]compute.Adjustment(nil), tokens...)
	for i := range tokens {
		if tokens[i].Token == token {
			tokens[i].Answer()
			return tokens
		}
	}
	if token < 0 { // there was none: what follows is dropped
		return tokens
	}
	return append(tokens, compute.Adjustment{Token: token, Answered: 1})
}
