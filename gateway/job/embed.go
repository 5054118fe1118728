package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"parley"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/token"
)

// EmbeddingsAtOnce bounds how many inputs of one request are with the worker:
// enough to fill a pass, few enough that others are not held up.
const EmbeddingsAtOnce = 16

// Inputs prepares texts of which embeddings are wanted. None is longer than the
// context. Special tokens that are written out in a text are text: an embedding is of
// what stands there. Param names them in errors.
func (j *Job) Inputs(ctx context.Context, m *models.Model, param string, inputs []openai.Prompt) (*Query, error) {
	j.Record.SetModel(m.ID)
	if err := m.CheckPrompts(inputs, nil, 0); err != nil {
		return nil, err
	}
	if err := j.screening.Prompts(ctx, m, param, inputs); err != nil {
		return nil, err
	}
	defer j.Record.Took(ledger.Tokenize, j.server.Now())
	p := &Query{model: m, requests: make([]*parley.Request, len(inputs))}
	for i, input := range inputs {
		tokens := input.Tokens
		if !input.IsTokens {
			var err error
			if tokens, err = m.Encode(input.Param, input.Text, token.Options{AddSpecial: true}); err != nil {
				return nil, err
			}
		}
		switch {
		case len(tokens) == 0:
			return nil, parley.Invalid(input.Param, "Invalid '%s': the text has no tokens.", input.Param)
		case len(tokens) >= m.ContextTokens:
			return nil, openai.ContextTooLong(input.Param, m.ContextTokens, len(tokens), 0)
		}
		r := &parley.Request{ID: fmt.Sprintf("%s-%d", j.Record.ID, i), Model: m.ID, Prompt: tokens, Embed: true}
		j.claim(m, r)
		j.Record.AddPrompt(len(tokens))
		p.requests[i] = r
	}
	return p, nil
}

// Embed has the inputs computed and hands each vector to take, in the order in
// which they come. The first error ends all.
func (j *Job) Embed(ctx context.Context, p *Query, take func(input int, vector []float32) error) error {
	b, err := j.payer.Reserve(ctx, p.model, p.requests)
	if err != nil {
		return err
	}
	j.bill = b
	defer b.Close()
	work := j.run(ctx, p, EmbeddingsAtOnce, b)
	defer work.Stop()
	has := make([]bool, len(p.requests))
	for complete := 0; complete < len(p.requests); {
		select {
		case e := <-work.Pumped():
			if e.Err != nil {
				return e.Err
			}
			j.Record.Delta(e.Prompt, &e.Step)
			if e.Delta.Usage != nil {
				complete++
			}
			if e.Delta.Embedding == nil {
				continue
			}
			if err := take(e.Prompt, e.Delta.Embedding); err != nil {
				return err
			}
			has[e.Prompt] = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if slices.Contains(has, false) {
		return errNoEmbedding
	}
	used := j.Record.Usage()
	b.Settle(&parley.Usage{
		PromptTokens: j.Record.PromptTokens(),
		CachedTokens: used.CachedTokens,
		Queued:       used.Queued,
		Prefill:      used.Prefill,
	})
	return nil
}

var errNoEmbedding = errors.New("the worker ended the answer without an embedding")
