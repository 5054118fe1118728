package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"parley"
	"parley/gateway/ledger"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/token"
)

// embeddingsAtOnce bounds how many inputs of one request are with the worker:
// enough to fill a pass, few enough that others get their turns.
const embeddingsAtOnce = 16

// embeddings answers POST /v1/embeddings.
func (g *Gateway) embeddings(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseEmbedding(body)
	if err != nil {
		return err
	}
	model, err := c.model(request.Model)
	if err != nil {
		return err
	}
	c.Record.SetModel(model.ID)
	if err := request.CheckVocab(model.VocabTokens); err != nil {
		return err
	}
	if err := model.CheckPrompts(request.Inputs, nil, 0); err != nil {
		return err
	}
	if err := c.screenPrompts(model, "input", request.Inputs); err != nil {
		return err
	}
	begun := g.config.Now()
	jobs, err := embeddingJobs(c, model, request.Inputs)
	c.Record.Took(ledger.Tokenize, begun)
	if err != nil {
		return err
	}
	list := openai.EmbeddingList{Object: "list", Model: model.ID, Data: make([]openai.Embedding, len(jobs))}
	err = c.embed(model, jobs, func(input int, vector []float32) error {
		if err := request.CheckWidth(len(vector)); err != nil {
			return err
		}
		list.Data[input] = request.Shape(input, vector)
		return nil
	})
	if err != nil {
		return err
	}
	list.Usage = openai.EmbeddingUsage{PromptTokens: c.Record.PromptTokens(), TotalTokens: c.Record.PromptTokens()}
	return c.Reply(http.StatusOK, list)
}

// embeddingJobs makes one request for each input, none of which is longer than
// the context. Special tokens that are written out in a text are text: an
// embedding is of what stands there.
func embeddingJobs(c *call, m *models.Model, inputs []openai.Prompt) ([]*parley.Request, error) {
	jobs := make([]*parley.Request, len(inputs))
	for i, p := range inputs {
		tokens := p.Tokens
		if !p.IsTokens {
			var err error
			if tokens, err = m.Encode(p.Param, p.Text, token.Options{AddSpecial: true}); err != nil {
				return nil, err
			}
		}
		switch {
		case len(tokens) == 0:
			return nil, parley.Invalid(p.Param, "Invalid '%s': the text has no tokens.", p.Param)
		case len(tokens) >= m.ContextTokens:
			return nil, openai.ContextTooLong(p.Param, m.ContextTokens, len(tokens), 0)
		}
		jobs[i] = &parley.Request{ID: fmt.Sprintf("%s-%d", c.Record.ID, i), Model: m.ID, Prompt: tokens, Embed: true}
		c.claim(m, jobs[i])
		c.Record.AddPrompt(len(tokens))
	}
	return jobs, nil
}

// embed has the jobs computed and hands each vector to take, in the order in
// which they come. The first error ends all.
func (c *call) embed(m *models.Model, jobs []*parley.Request, take func(job int, vector []float32) error) error {
	ctx := c.Request.Context()
	bill, err := c.reserve(m, jobs)
	if err != nil {
		return err
	}
	defer bill.close()
	c.Bytes.Release() // what is left of the body are tokens
	work := c.run(m, nil, jobs, embeddingsAtOnce, bill)
	defer work.Stop()
	for complete := 0; complete < len(jobs); {
		select {
		case e := <-work.Pumped():
			if e.Err != nil {
				return e.Err
			}
			c.Record.Delta(e.Prompt, e.Step)
			if e.Delta.Usage != nil {
				complete++
			}
			if e.Delta.Embedding == nil {
				continue
			}
			if err := take(e.Prompt, e.Delta.Embedding); err != nil {
				return err
			}
			jobs[e.Prompt] = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for _, job := range jobs {
		if job != nil {
			return errNoEmbedding
		}
	}
	bill.settle(&parley.Usage{PromptTokens: c.Record.PromptTokens(), CachedTokens: c.Record.Usage().CachedTokens,
		Queued: c.Record.Usage().Queued, Prefill: c.Record.Usage().Prefill})
	return nil
}

var errNoEmbedding = errors.New("the worker ended the answer without an embedding")
