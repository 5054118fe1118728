package gateway

import (
	"net/http"

	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/openai"
)

// embeddings answers POST /v1/embeddings.
func embeddings(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseEmbedding)
	if err != nil {
		return err
	}
	model, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	x.Record.SetModel(model.ID)
	if err := request.CheckVocab(model.VocabTokens); err != nil {
		return err
	}
	inputs, err := j.Inputs(x.Request.Context(), model, "input", request.Inputs)
	if err != nil {
		return err
	}
	x.Bytes.Release() // what is left of the body are tokens
	list := openai.EmbeddingList{Object: "list", Model: model.ID, Data: make([]openai.Embedding, len(request.Inputs))}
	err = j.Embed(x.Request.Context(), inputs, func(input int, vector []float32) error {
		if err := request.CheckWidth(len(vector)); err != nil {
			return err
		}
		list.Data[input] = request.Shape(input, vector)
		return nil
	})
	if err != nil {
		return err
	}
	list.Usage = openai.EmbeddingUsage{PromptTokens: x.Record.PromptTokens(), TotalTokens: x.Record.PromptTokens()}
	return x.Reply(http.StatusOK, list)
}
