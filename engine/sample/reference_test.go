package sample

import (
	"math"
	"math/bits"
	"slices"

	"parley"
)

// A slowSampler is the package's promise written down without regard to
// speed: it adjusts every score, sorts the whole vocabulary and walks it.
type slowSampler struct {
	sampling       parley.Sampling
	prompt, answer []parley.Token
	choice         int
	// exact uses the package's own weights, for inputs made to hit the edges
	// where math.Exp may round differently; else it computes its own.
	exact bool
}

type candidate struct {
	id     int
	score  float32
	weight uint64
}

func (s *slowSampler) adjusted(logits []float32) []float32 {
	scores := slices.Clone(logits)
	for i := range scores {
		token := parley.Token(i)
		score := plainScore(scores[i]) + plainNumber(s.sampling.LogitBias[token])
		inAnswer := 0
		for _, t := range s.answer {
			if t == token {
				inAnswer++
			}
		}
		if r := s.sampling.RepetitionPenalty; r > 0 && !math.IsInf(float64(r), 0) && (inAnswer > 0 ||
			slices.Contains(s.prompt, token)) {
			if score > 0 {
				score /= r
			} else {
				score = float32(score * r)
			}
		}
		if inAnswer > 0 {
			score -= float32(float32(inAnswer) * plainNumber(s.sampling.FrequencyPenalty))
			score -= plainNumber(s.sampling.PresencePenalty)
		}
		scores[i] = plainScore(score)
	}
	return scores
}

func plainScore(x float32) float32 {
	if math.IsNaN(float64(x)) {
		return float32(math.Inf(-1))
	}
	return min(x, math.MaxFloat32)
}

func plainNumber(x float32) float32 {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return 0
	}
	return x
}

// sorted returns every token that is above minus infinity, best first.
func (s *slowSampler) sorted(logits []float32) []candidate {
	var all []candidate
	for id, score := range s.adjusted(logits) {
		if score > float32(math.Inf(-1)) {
			all = append(all, candidate{id: id, score: score})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	return all
}

// kept returns the tokens that survive every filter, best first, with weights.
func (s *slowSampler) kept(logits []float32) []candidate {
	kept := s.sorted(logits)
	if len(kept) == 0 || !(s.sampling.Temperature > 0) {
		return kept[:min(1, len(kept))]
	}
	if k := s.sampling.TopK; k > 0 {
		kept = kept[:min(k, len(kept))]
	}
	c := curveOf(kept[0].score, float64(s.sampling.Temperature))
	minP := float64(min(s.sampling.MinP, 1))
	total, probable := uint64(0), 0
	for i := range kept {
		fall := (float64(kept[0].score) - float64(kept[i].score)) / float64(s.sampling.Temperature)
		kept[i].weight = uint64(math.Floor(math.Exp(-fall)*weightOne + 0.5))
		within := !(minP > 0) || fall <= -math.Log(minP)
		if s.exact {
			kept[i].weight = c.weight(kept[i].score)
			within = !(minP > 0) || c.steps(kept[i].score) <= stepsTo(minP)
		}
		total += kept[i].weight
		if within {
			probable++
		}
	}
	if p := s.sampling.TopP; p > 0 && p < 1 {
		kept = kept[:shortestReaching(kept, share(float64(p), total))]
	}
	return kept[:min(len(kept), probable)]
}

func shortestReaching(list []candidate, want uint64) int {
	sum := uint64(0)
	for i, c := range list {
		if sum += c.weight; sum >= want {
			return i + 1
		}
	}
	return len(list)
}

func (s *slowSampler) choose(logits []float32) (parley.Token, error) {
	kept := s.kept(logits)
	if len(kept) == 0 {
		return 0, ErrNoToken
	}
	if !(s.sampling.Temperature > 0) {
		return parley.Token(kept[0].id), nil
	}
	total := uint64(0)
	for _, c := range kept {
		total += c.weight
	}
	uniform, _ := philox(uint64(len(s.answer)), uint64(s.choice), s.sampling.Seed)
	drawn, _ := bits.Mul64(uniform, total)
	return parley.Token(kept[shortestReaching(kept, drawn+1)-1].id), nil
}

// slowLogprobs is the log-softmax by the textbook, with big enough numbers.
func slowLogprobs(logits []float32) []float64 {
	peak := math.Inf(-1)
	for _, x := range logits {
		peak = max(peak, float64(plainScore(x)))
	}
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(plainScore(x)) - peak)
	}
	out := make([]float64, len(logits))
	for i, x := range logits {
		out[i] = LeastLogprob
		if logprob := float64(plainScore(x)) - peak - math.Log(sum); logprob > LeastLogprob {
			out[i] = logprob
		}
	}
	return out
}
