package models

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/book"
	"parley/gateway/infer"
	"parley/gateway/openai"
	"parley/token"
)

// A Model is a [Config] with its defaults filled in.
type Model struct {
	Config
	// VocabTokens is one more than the largest token id.
	VocabTokens int
	Tools       answer.Tools
	// Pipeline is the model as the pipeline knows it.
	Pipeline *infer.Model
	// public are the beginnings that all tenants share; nil without any.
	public *publicPrompts
	now    func() time.Time
	// Answers is how long the model's answers are.
	Answers *book.Estimate
	// BytesPerToken is as [bytesPerToken] says, found out when it is first needed.
	BytesPerToken func() int
}

func newModel(served Config, now func() time.Time) *Model {
	m := &Model{
		Config:      served,
		VocabTokens: served.Tokenizer.Size(),
		Tools:       answer.OpenToolbox(served.Tokenizer, served.Template, now()),
		Answers:     new(book.Estimate),
		now:         now,
	}
	m.ContextTokens = served.Context()
	m.BytesPerToken = sync.OnceValue(func() int { return bytesPerToken(served.Tokenizer) })
	if served.Gauge != nil { // ids are the upstream's business, and nothing follows from bytes for sure
		m.VocabTokens, m.BytesPerToken = math.MaxInt32, func() int { return 0 }
	}
	m.OwnedBy = cmp.Or(m.OwnedBy, "parley")
	if m.Created.IsZero() {
		m.Created = now()
	}
	return m
}

// TurnsOnly reports whether the model's workers take conversations alone, so that an answer
// which broke off cannot be continued.
func (m *Model) TurnsOnly() bool {
	w, ok := m.Worker.(interface{ TurnsOnly(model string) bool })
	return ok && w.TurnsOnly(m.ID)
}

// Encode returns the tokens of a text, which an error names as param.
func (m *Model) Encode(param, text string, options token.Options) ([]parley.Token, error) {
	tokens, err := m.Tokenizer.Encode(text, options)
	if err != nil {
		return nil, untokenizable(param, err)
	}
	return tokens, nil
}

func untokenizable(param string, err error) error {
	return parley.Invalid(param, "Invalid '%s': the text cannot be tokenized: %v.", param, err)
}

// answerTokensMin is how many tokens an answer has to be left with that is cut to
// what fits the context. With less, a client is told, so that it can shorten its
// prompt.
const answerTokensMin = 1024

// OutputTokens returns how many tokens the answer to a prompt may have, or the
// error if they do not fit the context; 0 asks for as many as fit. Only a
// number that the client named itself can be too large.
func (m *Model) OutputTokens(param string, promptTokens int, g *openai.Generation) (int, error) {
	if m.Gauge != nil {
		return m.estimatedOutput(param, promptTokens, g)
	}
	room := m.ContextTokens - promptTokens
	switch {
	case g.Sinks > 0:
		return g.MaxTokens, nil
	case room <= 0:
		return 0, openai.ContextTooLong(param, m.ContextTokens, promptTokens, 0)
	case g.MaxTokens <= room:
		return g.MaxTokens, nil
	case g.MaxTokensParam == "", g.CutToFit && room >= answerTokensMin:
		return room, nil
	}
	return 0, openai.ContextTooLong(param, m.ContextTokens, promptTokens, g.MaxTokens)
}

// estimateSlack is how many times the context a prompt must be estimated to have before it is
// refused here: whether a prompt fits that is near its context, only the upstream knows.
const estimateSlack = 2

// estimatedOutput is OutputTokens for a model whose tokens are estimated.
func (m *Model) estimatedOutput(param string, promptTokens int, g *openai.Generation) (int, error) {
	if promptTokens > estimateSlack*m.ContextTokens {
		return 0, openai.ContextTooLong(param, m.ContextTokens, promptTokens, 0)
	}
	return g.MaxTokens, nil
}

// PromptTokens returns how many tokens a prompt has or, where the model's tokenizer is not known, is
// expected to have.
func (m *Model) PromptTokens(prompt []parley.Token) int { return m.Gauge.Prompt(len(prompt)) }

// TokenText returns a token for people to read.
func (m *Model) TokenText(id parley.Token) string { return openai.TokenText(m.Tokenizer.Bytes(id)) }

// TokenLogprob returns a token's log-probabilities in the shape of chats.
func (m *Model) TokenLogprob(l parley.Logprob) openai.TokenLogprob {
	b := m.Tokenizer.Bytes(l.Token)
	entry := openai.TokenLogprob{
		Token:       openai.TokenText(b),
		Logprob:     openai.LogprobOf(l.Logprob),
		Bytes:       openai.ByteValues(b),
		TopLogprobs: []openai.TopLogprob{},
	}
	for _, top := range l.Top {
		b := m.Tokenizer.Bytes(top.Token)
		entry.TopLogprobs = append(entry.TopLogprobs, openai.TopLogprob{
			Token: openai.TokenText(b), Logprob: openai.LogprobOf(top.Logprob), Bytes: openai.ByteValues(b),
		})
	}
	return entry
}

// listed reports whether the worker lists the model.
func (m *Model) listed() bool {
	return slices.ContainsFunc(m.Worker.Models(), func(known parley.Model) bool { return known.ID == m.ID })
}

// Unready says why the model cannot answer now: its worker does not list it, or no worker
// is up that could begin a request; nil if it can.
func (m *Model) Unready() error {
	if !m.listed() {
		return parley.Errorf(parley.Unavailable, "No worker serves the model '%s' yet.", m.ID)
	}
	return m.Pipeline.Unready()
}
