package foreign

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"parley"
)

// putLength writes how long an answer may be. Without a bound it is what the
// context leaves, where that is known.
func (e *Engine) putLength(b map[string]any, name string, q *parley.Request) {
	most := q.MaxTokens
	if context := e.ContextTokens; most == 0 && context > 0 {
		most = max(1, context-len(q.Prompt))
	}
	b[name] = nil
	if most > 0 {
		b[name] = most
	}
}

// putSampling writes what is not at its default, under the names that all
// engines share; repetition is what they call that penalty.
func putSampling(b map[string]any, s *parley.Sampling, repetition string) {
	put := func(name string, value, none float32) {
		if value != 0 && value != none {
			b[name] = value
		}
	}
	if s.TopK > 0 {
		b["top_k"] = s.TopK
	}
	put("top_p", s.TopP, 1)
	put("min_p", s.MinP, 0)
	put(repetition, s.RepetitionPenalty, 1)
	put("presence_penalty", s.PresencePenalty, 0)
	put("frequency_penalty", s.FrequencyPenalty, 0)
}

var errLogprobs = errors.New("the log-probabilities do not match the tokens")

// An Engine is what a request must say of the engine that it goes to.
type Engine struct {
	// Name is what the engine calls the model.
	Name string
	// ContextTokens is the context of the model, and Configured the one that the engine is
	// to use; 0 if they are not known.
	ContextTokens, Configured int
	// Text returns a prompt as text, for engines that take no tokens.
	Text func(model string, prompt []parley.Token) string
	// OutputTokens is the longest answer of the model; 0 if it is not known.
	OutputTokens int
}

// best returns the most probable of a list in order, at most most of them.
func best(list []parley.TopLogprob, most int) []parley.TopLogprob {
	slices.SortFunc(list, func(a, b parley.TopLogprob) int {
		return cmp.Or(cmp.Compare(b.Logprob, a.Logprob), cmp.Compare(a.Token, b.Token))
	})
	return list[:min(len(list), max(0, most))]
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
