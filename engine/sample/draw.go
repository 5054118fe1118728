package sample

import (
	"parley"
	"parley/compute"
)

// Draw returns how the token after n more ones is chosen, if that depends on nothing
// but its scores: ok is false for a sampler whose scores are adjusted, for which the
// tokens before must be known.
func (s *Sampler) Draw(n int) (d compute.Draw, ok bool) {
	return compute.Draw{
		Seed:        s.seed,
		Choice:      s.choice,
		Position:    s.position + uint64(n),
		Greedy:      s.greedy,
		TopK:        s.topK,
		Temperature: s.temperature,
		TopP:        s.topP,
		MinPSteps:   s.minPSteps,
	}, s.adjust.none()
}

// none reports whether no score is ever adjusted.
func (a *adjustments) none() bool {
	return len(a.tokens) == 0 && a.repetition == 1 && a.presence == 0 && a.frequency == 0
}

// Drawn returns the token that d draws from logits: the definition of what a device
// must choose.
func Drawn(d *compute.Draw, logits []float32, scratch *Scratch) (parley.Token, error) {
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
	return s.Choose(logits, scratch)
}
