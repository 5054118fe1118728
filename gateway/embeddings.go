package gateway

import (
	"net/http"

	"parley/gateway/openai"
)

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
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	c.Record.SetModel(model.ID)
	if err := request.CheckVocab(model.VocabTokens); err != nil {
		return err
	}
	inputs, err := c.job.Inputs(c.Request.Context(), model, "input", request.Inputs)
	if err != nil {
		return err
	}
	c.Bytes.Release() // what is left of the body are tokens
	list := openai.EmbeddingList{Object: "list", Model: model.ID, Data: make([]openai.Embedding, len(request.Inputs))}
	err = c.job.Embed(c.Request.Context(), inputs, func(input int, vector []float32) error {
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
