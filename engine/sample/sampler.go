package sample

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"parley"
)

// MaxVocab is the largest vocabulary whose probabilities can be summed exactly.
const MaxVocab = 1 << (63 - weightBits)

// shortlistMax is the greatest top_k for which sorting the survivors is
// cheaper than weighing the vocabulary.
const shortlistMax = 1024

// ErrNoToken means that every score was NaN or minus infinity, so that there
// is no token to choose. The scores, and so the model, are broken.
var ErrNoToken = errors.New(
	"no token has a score above minus infinity: the model's output is broken, check its weights")

// Check returns a [parley.Error] naming the first field of s that a sampler
// for a vocabulary of that many tokens cannot honour, or nil. It says what is
// meaningful; a gateway may allow less.
func Check(s parley.Sampling, vocab int) error {
	switch {
	case vocab < 1 || vocab > MaxVocab:
		return fmt.Errorf("vocabulary of %d tokens is not between 1 and %d", vocab, MaxVocab)
	case !isFinite(s.Temperature) || s.Temperature < 0:
		return parley.Invalid("temperature", "temperature %v must be a number of 0 or more", s.Temperature)
	case s.TopK < 0:
		return parley.Invalid("top_k", "top_k %d must be 0, for no limit, or more", s.TopK)
	case !(s.TopP >= 0 && s.TopP <= 1):
		return parley.Invalid("top_p", "top_p %v must be between 0 and 1", s.TopP)
	case !(s.MinP >= 0 && s.MinP <= 1):
		return parley.Invalid("min_p", "min_p %v must be between 0 and 1", s.MinP)
	case !isFinite(s.RepetitionPenalty) || s.RepetitionPenalty < 0:
		return parley.Invalid("repetition_penalty", "repetition_penalty %v must be a number of 0 or more",
			s.RepetitionPenalty)
	case !isFinite(s.PresencePenalty):
		return parley.Invalid("presence_penalty", "presence_penalty %v must be a number", s.PresencePenalty)
	case !isFinite(s.FrequencyPenalty):
		return parley.Invalid("frequency_penalty", "frequency_penalty %v must be a number", s.FrequencyPenalty)
	}
	return checkBias(s.LogitBias, vocab)
}

func checkBias(bias map[parley.Token]float32, vocab int) error {
	for _, token := range slices.Sorted(maps.Keys(bias)) {
		if token < 0 || int(token) >= vocab {
			return parley.Invalid("logit_bias", "logit_bias names token %d, but the model has tokens 0 to %d", token,
				vocab-1)
		}
		if !isFinite(bias[token]) {
			return parley.Invalid("logit_bias", "logit_bias of token %d is %v and must be a number", token, bias[token])
		}
	}
	return nil
}

// A Sampler chooses the tokens of one choice of one request.
type Sampler struct {
	seed, choice, position uint64
	vocab                  int
	greedy                 bool
	temperature, topP      float64
	topK                   int
	// minPSteps is how far below the peak min_p reaches; +Inf keeps all.
	minPSteps float64
	adjust    adjustments
}

// New returns a sampler for choice number choice of a request with that
// prompt. It takes any setting: one that [Check] would refuse does no harm,
// but has no meaning that can be relied on.
func New(s parley.Sampling, prompt []parley.Token, vocab int, choice int) *Sampler {
	sampler := &Sampler{
		seed:        s.Seed,
		choice:      uint64(choice),
		vocab:       vocab,
		greedy:      !(s.Temperature > 0),
		temperature: float64(s.Temperature),
		topP:        1,
		topK:        vocab,
		minPSteps:   math.Inf(1),
		adjust:      newAdjustments(s, prompt, vocab),
	}
	if s.TopK > 0 {
		sampler.topK = min(s.TopK, vocab)
	}
	if s.TopP > 0 && s.TopP < 1 {
		sampler.topP = float64(s.TopP)
	}
	if s.MinP > 0 {
		sampler.minPSteps = stepsTo(float64(min(s.MinP, 1)))
	}
	return sampler
}

// Choose returns the next token for logits, one score for each token of the
// vocabulary, which it leaves as they are. Called again before [Sampler.Accept]
// it answers the same for the same logits, which is how a guessed token is
// verified.
func (s *Sampler) Choose(logits []float32, scratch *Scratch) (parley.Token, error) {
	if len(logits) != s.vocab || len(logits) > MaxVocab {
		return 0, fmt.Errorf("%d scores for a vocabulary of %d tokens, at most %d: pass one row of scores",
			len(logits), s.vocab, MaxVocab)
	}
	scores, best := scratch.finite(apply(&s.adjust.Adjust, logits, scratch))
	switch {
	case best < 0:
		return 0, ErrNoToken
	case s.greedy || s.topK == 1:
		return parley.Token(best), nil
	}
	c := curveOf(scores[best], s.temperature)
	if s.topK > shortlistMax || s.topK == s.vocab {
		return parley.Token(s.draw(scores, c, scratch)), nil
	}
	ranked := scratch.rank(scores, s.topK)
	return parley.Token(ranked[s.draw(scratch.scoresOf(ranked), c, scratch)].index()), nil
}

// guessCold is up to which temperature the likeliest token is guessed: there it
// is right about as often as the one that the same draw gives, and found faster.
const guessCold = 0.5

// Ahead guesses from another network's logits which token will come after n
// more: with the draw that will be made for it then, so that it is likely the
// same one wherever the two networks agree. Penalties do not know the tokens
// between.
func (s *Sampler) Ahead(n int, logits []float32, scratch *Scratch) (parley.Token, error) {
	later := *s
	later.position += uint64(n)
	later.greedy = s.greedy || s.temperature <= guessCold
	return later.Choose(logits, scratch)
}

// draw filters scores and returns the index of one of the rest. Every filter
// keeps a run of the best, so all that is known of what is kept is its weight.
func (s *Sampler) draw(scores []float32, c curve, scratch *Scratch) int {
	limitSteps := math.Nextafter(horizonSteps, 0)
	if s.topP == 1 {
		limitSteps = min(limitSteps, s.minPSteps)
	}
	kept := scratch.weigh(scores, c, limitSteps)
	if s.topK < len(scores) {
		scratch.countBuckets()
		_, kept = scratch.reach(scores, c, noMass, s.topK)
	}
	if s.topP < 1 {
		_, kept = scratch.reach(scores, c, share(s.topP, kept), noRank)
		if s.minPSteps < horizonSteps {
			kept = min(kept, scratch.massWithin(scores, c, s.minPSteps))
		}
	}
	index, _ := scratch.reach(scores, c, drawBelow(kept, s.seed, s.choice, s.position)+1, noRank)
	return index
}

// share is the part p of mass, rounded up, and at least 1.
func share(p float64, mass uint64) uint64 {
	return max(1, uint64(math.Ceil(p*float64(mass))))
}

// Accept makes token the next of the answer: the penalties count it, and the
// next [Sampler.Choose] is the next draw.
func (s *Sampler) Accept(token parley.Token) {
	s.position++
	s.adjust.answer(token)
}
