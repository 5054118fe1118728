package fleet

import (
	"slices"
	"time"

	"parley"
)

// A Resuming is how a worker resumes an answer that was begun elsewhere.
type Resuming uint8

// The ways to resume.
const (
	// ResumeExact: it takes the tokens so far ([parley.Request.Resume]) and continues
	// exactly as the other would have.
	ResumeExact Resuming = iota
	// ResumeAsPrompt: it takes the tokens so far as the end of a longer prompt. Greedy
	// text continues the same; sampled text continues with other draws. Several
	// choices, grammars and penalties that count the answer are not possible.
	ResumeAsPrompt
	// ResumeNever: it makes tokens of its own.
	ResumeNever
)

// A partialAnswer is an answer so far: all that is needed to resume it elsewhere.
type partialAnswer struct {
	choices []parley.Partial
	tokens  int
	// texts counts pieces that came as text, without ids: an answer that has one
	// cannot be resumed.
	texts int
	// began and first are when the request came and its first token did.
	began, first time.Time
	cached       int
	miss         string
}

func newPartialAnswer(r *parley.Request, now time.Time) partialAnswer {
	return partialAnswer{choices: make([]parley.Partial, max(1, r.Choices)), began: now}
}

// add takes a piece of the answer.
func (s *partialAnswer) add(d *parley.Delta, now time.Time) {
	if d.Choice < 0 || d.Choice >= len(s.choices) {
		return
	}
	w := &s.choices[d.Choice]
	if s.pieces() == 0 && d.Count() > 0 {
		s.first = now
	}
	s.cached = max(s.cached, d.CachedTokens)
	w.Tokens = append(w.Tokens, d.Tokens...)
	w.Done = w.Done || d.Finish != ""
	s.tokens += len(d.Tokens)
	if d.HasText() {
		s.texts++
	}
}

// pieces is how much was said: tokens, or pieces of text.
func (s *partialAnswer) pieces() int { return s.tokens + s.texts }

// begun reports whether the client has heard anything that must not change.
func (s *partialAnswer) begun() bool {
	if s.texts > 0 {
		return true
	}
	for i := range s.choices {
		if len(s.choices[i].Tokens) > 0 || s.choices[i].Done {
			return true
		}
	}
	return false
}

// complete reports whether nothing but the usage is missing.
func (s *partialAnswer) complete() bool {
	for i := range s.choices {
		if !s.choices[i].Done {
			return false
		}
	}
	return true
}

// resumable reports whether a worker that resumes in this way can resume it.
func (s *partialAnswer) resumable(r *parley.Request, how Resuming) bool {
	if s.texts > 0 {
		return false
	}
	switch how {
	case ResumeExact:
		return true
	case ResumeAsPrompt:
		return len(s.choices) == 1 && r.Grammar == nil && r.SinkTokens == 0 && r.Sampling.PresencePenalty == 0 &&
			r.Sampling.FrequencyPenalty == 0
	}
	return false
}

// request is what the next worker is sent: r itself, or r to be resumed.
func (s *partialAnswer) request(r *parley.Request, how Resuming) *parley.Request {
	if !s.begun() {
		return r
	}
	rest := *r
	rest.PromptLogprobs, rest.Progress = false, false // both came before
	if how == ResumeAsPrompt {
		tokens := s.choices[0].Tokens
		rest.Prompt = slices.Concat(r.Prompt, tokens)
		if r.MaxTokens > 0 {
			rest.MaxTokens = max(1, r.MaxTokens-len(tokens))
		}
		return &rest
	}
	rest.Resume = make([]parley.Partial, len(s.choices))
	for i, w := range s.choices {
		n := len(w.Tokens)
		rest.Resume[i] = parley.Partial{Tokens: w.Tokens[:n:n], Done: w.Done}
	}
	return &rest
}

// longest returns the tokens of the longest choice that is not complete.
func (s *partialAnswer) longest() (tokens []parley.Token) {
	for _, w := range s.choices {
		if !w.Done && len(w.Tokens) > len(tokens) {
			tokens = w.Tokens
		}
	}
	return tokens
}

// work is how many tokens have to be computed to resume elsewhere, at most.
func (s *partialAnswer) work(r *parley.Request) int {
	n := len(r.Prompt)
	for _, w := range s.choices {
		if !w.Done {
			n += len(w.Tokens)
		}
	}
	return n
}

// usage puts what the last worker counted right for the whole answer; nil if
// it was lost before it could.
func (s *partialAnswer) usage(r *parley.Request, last *parley.Usage, now time.Time) *parley.Usage {
	u := parley.Usage{CachedTokens: s.cached, Miss: s.miss}
	if last != nil {
		u = *last
	}
	u.PromptTokens = len(r.Prompt)
	if last == nil || s.texts == 0 { // else it alone knows
		u.OutputTokens = s.pieces()
	}
	u.CachedTokens = min(u.CachedTokens, u.PromptTokens)
	u.Queued, u.SeatWait, u.MemoryWait, u.Prefill, u.Decode = 0, 0, 0, now.Sub(s.began), 0
	if !s.first.IsZero() {
		u.Prefill, u.Decode = s.first.Sub(s.began), now.Sub(s.first)
	}
	return &u
}
