package models

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/gateway/openai"
	"parley/token"
)

// An About describes a model for people: nothing depends on it. What is unknown is empty.
type About struct {
	// Format is gguf or safetensors, Family the architecture, and Quantization the type
	// that most weights have.
	Format, Family, Quantization string
	// Parameters counts weights, and Bytes is the size of their files.
	Parameters, Bytes int64
	// License is its short name, and GoodAt says in a few words what it is for.
	License, GoodAt string
}

// A loadable worker has a model that comes into memory when it is asked for.
type loadable interface {
	Load(context.Context) error
	Unload()
	KeepAlive(time.Duration)
	Residence() (bytes int64, until time.Time, loaded bool)
}

// CanUnload reports whether the model can leave memory.
func (m *Model) CanUnload() bool {
	_, ok := m.Worker.(loadable)
	return ok
}

// Load brings the model into memory, if it is not there.
func (m *Model) Load(ctx context.Context) error {
	if w, ok := m.Worker.(loadable); ok {
		return w.Load(ctx)
	}
	return nil
}

// KeepAlive keeps the model in memory for d when it is idle: less than 0 is for ever, and 0
// unloads it as soon as it answers nothing. Models that cannot leave memory stay.
func (m *Model) KeepAlive(d time.Duration) {
	switch w, ok := m.Worker.(loadable); {
	case ok && d == 0:
		w.Unload()
	case ok:
		w.KeepAlive(d)
	}
}

// Residence returns what the model takes of memory and until when, if it stays idle: the
// zero time is for ever. It reports whether the model is loaded.
func (m *Model) Residence() (bytes int64, until time.Time, loaded bool) {
	if w, ok := m.Worker.(loadable); ok {
		return w.Residence()
	}
	return m.About.Bytes, time.Time{}, m.listed()
}

// Truncate cuts a text to what fits the context.
func (m *Model) Truncate(p *openai.Prompt) error {
	if p.IsTokens || len(p.Text) < m.ContextTokens {
		return nil
	}
	if most := m.BytesPerToken() * m.ContextTokens; most > 0 && len(p.Text) > most {
		p.Text = strings.ToValidUTF8(p.Text[:most], "")
	}
	tokens, err := m.Encode(p.Param, p.Text, token.Options{AddSpecial: true})
	if err == nil && len(tokens) >= m.ContextTokens {
		*p = openai.Prompt{Tokens: tokens[:m.ContextTokens-1], IsTokens: true, Param: p.Param}
	}
	return err
}

// After returns the tokens of a conversation after an answer to its prompt, to continue
// from with [Model.Follow].
func (m *Model) After(prompt []parley.Token, answer string) []parley.Token {
	said, err := m.Tokenizer.Encode(answer, token.Options{})
	if err != nil {
		return nil
	}
	ends := m.Tokenizer.Special().EOS
	return slices.Concat(prompt, said, ends[:min(len(ends), 1)])
}

// Follow returns the tokens of a conversation with one more turn, whose rendered prompt
// may begin as the first one did.
func (m *Model) Follow(before, turn []parley.Token) []parley.Token {
	if bos := m.Tokenizer.Special().BOS; bos != token.None && len(turn) > 0 && turn[0] == bos {
		turn = turn[1:]
	}
	return slices.Concat(before, turn)
}
