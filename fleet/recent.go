package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley"
)

// A WarmUp is what a worker fetched before it got requests.
type WarmUp struct {
	// Prefixes is how many prompts were chosen, and Tokens how many came of them, in Bytes.
	Prefixes int   `json:"prefixes"`
	Tokens   int   `json:"tokens"`
	Bytes    int64 `json:"bytes"`
	// Seconds is how long that took, Miss why not all came.
	Seconds float64 `json:"seconds"`
	Miss    string  `json:"miss,omitempty"`
}

// A warmUp is under way as long as cancel is not nil.
type warmUp struct {
	WarmUp
	cancel context.CancelCauseFunc
}

func (w *warmUp) underWay() bool { return w != nil && w.cancel != nil }

// end ends it, if it is under way. The fleet's lock is held.
func (w *warmUp) end(why error) {
	if w.underWay() {
		w.cancel(why)
	}
}

// Why a warm-up ends before all has come.
var (
	errWarmSlow    = errors.New("too slow")
	errWarmNeeded  = errors.New("needed")  // a request has no other worker
	errWarmStopped = errors.New("stopped") // its worker is to do something else
)

// A recentPrompt is what was asked and answered lately, with all that the names of its
// blocks depend on.
type recentPrompt struct {
	model, tenant  string
	class          parley.Class
	salt           parley.Salt
	publicTokens   int
	prompt, answer []parley.Token
	pool           string
	at             time.Time
}

// request returns the request that has a worker fetch the blocks of the prompt and its answer.
func (p *recentPrompt) request() *parley.Request {
	return &parley.Request{
		Model:        p.model,
		Prompt:       slices.Concat(p.prompt, p.answer),
		Class:        p.class,
		Tenant:       p.tenant,
		Salt:         p.salt,
		PublicTokens: p.publicTokens,
		MaxTokens:    1, // for workers that compute in any case
		Background:   true,
	}
}

func (p *recentPrompt) length() int { return len(p.prompt) + len(p.answer) }

// recentPrompts are the latest, the oldest first.
type recentPrompts struct {
	list   []*recentPrompt
	tokens int
}

const (
	// recentTokens and recentMost bound what is remembered: some megabytes.
	recentTokens = 1 << 20
	recentMost   = 1024
)

func (p *recentPrompts) add(one *recentPrompt) {
	if one.length() > recentTokens {
		return
	}
	p.list = append(p.list, one)
	p.tokens += one.length()
	drop := 0
	for ; p.tokens > recentTokens || len(p.list)-drop > recentMost; drop++ {
		p.tokens -= p.list[drop].length()
	}
	clear(p.list[:drop])
	p.list = p.list[drop:]
}

// keysOf returns the keys of a prompt's blocks. The salt begins with the first
// block that is not public as a whole.
func keysOf(tokens []parley.Token, r *parley.Request, size int) []parley.BlockKey {
	public := min(r.PublicTokens, len(tokens)) / size * size
	keys := make([]parley.BlockKey, 0, len(tokens)/size)
	keys = parley.AppendBlockKeys(keys, 0, parley.Salt{}, tokens[:public], size)
	var parent parley.BlockKey
	if len(keys) > 0 {
		parent = keys[len(keys)-1]
	}
	return parley.AppendBlockKeys(keys, parent, r.Salt, tokens[public:], size)
}
