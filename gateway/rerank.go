package gateway

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"parley/gateway/openai"
)

// rerank answers POST /v1/rerank: documents in the order of how near they are to
// a query, which is the cosine of the angle between their embeddings.
func (g *Gateway) rerank(c *call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := openai.ParseRerank(body)
	if err != nil {
		return err
	}
	model, err := c.job.Model(request.Model)
	if err != nil {
		return err
	}
	inputs, err := c.job.Inputs(c.Request.Context(), model, "documents", request.Inputs)
	if err != nil {
		return err
	}
	c.Bytes.Release() // what is left of the body are tokens
	vectors := make([][]float32, len(request.Inputs))
	err = c.job.Embed(c.Request.Context(), inputs, func(input int, vector []float32) error {
		vectors[input] = vector
		return nil
	})
	if err != nil {
		return err
	}
	tokens := c.Record.PromptTokens()
	return c.Reply(http.StatusOK, openai.Ranking{
		ID: "rerank-" + c.Suffix, Model: model.ID,
		Usage:   openai.EmbeddingUsage{PromptTokens: tokens, TotalTokens: tokens},
		Results: rank(request, vectors),
	})
}

// rank puts documents in order. The first vector is the query's.
func rank(request *openai.RerankRequest, vectors [][]float32) []openai.RankedDocument {
	documents := request.Documents()
	results := make([]openai.RankedDocument, len(documents))
	for i := range documents {
		results[i] = openai.RankedDocument{Index: i, RelevanceScore: cosine(vectors[0], vectors[i+1])}
		if request.Quoted {
			results[i].Document = &openai.QuotedDocument{Text: documents[i].Text}
		}
	}
	slices.SortStableFunc(results, func(a, b openai.RankedDocument) int {
		return cmp.Compare(b.RelevanceScore, a.RelevanceScore)
	})
	return results[:request.Top]
}

// cosine is 1 for vectors of one direction and 0 for a vector without any.
func cosine(a, b []float32) float64 {
	var product, squaresA, squaresB float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		product, squaresA, squaresB = product+x*y, squaresA+x*x, squaresB+y*y
	}
	if squaresA == 0 || squaresB == 0 {
		return 0
	}
	return product / math.Sqrt(squaresA*squaresB)
}
