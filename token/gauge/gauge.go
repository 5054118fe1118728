// Package gauge estimates how many tokens a model counts whose tokenizer is not known, such
// as one of a hosted service. Before a request its prompt is measured in tokens of another
// model, and its answer while it is written in bytes; a [Gauge] turns both into the model's
// own tokens, by a rate that it learns from what the service reports afterwards.
package gauge

import "sync"

const (
	// bytesPerToken is what is assumed of answers before anything was learned: common for
	// English text and code.
	bytesPerToken = 4
	// promptWeight and answerWeight are how many tokens and bytes of experience the
	// assumptions are worth.
	promptWeight, answerWeight = 500, 2000
	// memory is how much of its experience a rate keeps with each request: about the
	// last hundred count.
	memory = 0.99
	// spread bounds how far a rate may come from its assumption: a service that reports
	// nonsense must not make prompts free.
	spread = 8
)

// A Gauge estimates tokens of one model. It is safe for concurrent use.
type Gauge struct {
	mu             sync.Mutex
	prompt, answer rate
}

// New returns a gauge that has learned nothing.
func New() *Gauge {
	return &Gauge{prompt: rate{tokens: promptWeight, of: promptWeight, usual: 1},
		answer: rate{tokens: answerWeight / bytesPerToken, of: answerWeight, usual: 1. / bytesPerToken}}
}

// Prompt returns how many tokens a prompt is expected to have that has n tokens of the
// model it is measured with. A nil gauge returns n: the tokenizer is the model's own.
func (g *Gauge) Prompt(n int) int {
	if g == nil {
		return n
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.prompt.estimate(n)
}

// Answer returns how many tokens n bytes of an answer are expected to have.
func (g *Gauge) Answer(n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answer.estimate(n)
}

// LearnPrompt takes what the service counted for a prompt of n measured tokens.
func (g *Gauge) LearnPrompt(n, tokens int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prompt.learn(n, tokens)
}

// LearnAnswer takes what the service counted for an answer of n bytes.
func (g *Gauge) LearnAnswer(n, tokens int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer.learn(n, tokens)
}

// A rate is how many tokens there are for each unit of a text, as a quotient of sums in
// which older texts count less.
type rate struct {
	tokens, of float64
	usual      float64
}

func (r *rate) estimate(n int) int {
	if n <= 0 {
		return 0
	}
	per := min(max(r.tokens/r.of, r.usual/spread), r.usual*spread)
	return max(1, int(float64(n)*per+0.5))
}

func (r *rate) learn(n, tokens int) {
	if n <= 0 || tokens <= 0 {
		return
	}
	r.tokens, r.of = r.tokens*memory+float64(tokens), r.of*memory+float64(n)
}
