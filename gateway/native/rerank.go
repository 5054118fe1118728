package native

import (
	"cmp"
	"math"
	"net/http"
	"slices"

	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// Rerank answers POST /v1/rerank: documents in the order of how near they are to
// a query, which is the cosine of the angle between their embeddings.
func Rerank(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, openai.ParseRerank)
	if err != nil {
		return err
	}
	m, err := j.Model(request.Model)
	if err != nil {
		return err
	}
	vectors, err := embed(x, j, m, "documents", request.Inputs)
	if err != nil {
		return err
	}
	tokens := x.Record.PromptTokens()
	return x.Reply(http.StatusOK, openai.Ranking{
		ID: "rerank-" + x.Suffix, Model: m.ID,
		Usage:   openai.EmbeddingUsage{PromptTokens: tokens, TotalTokens: tokens},
		Results: rank(request, vectors),
	})
}

// embed returns the vectors of texts, which errors name as param.
func embed(x *exchange.Exchange, j *job.Job, m *models.Model, param string, inputs []openai.Prompt) ([][]float32,
	error) {
	query, err := j.Inputs(x.Request.Context(), m, param, inputs)
	if err != nil {
		return nil, err
	}
	x.Bytes.Release() // what is left of the body are tokens
	vectors := make([][]float32, len(inputs))
	return vectors, j.Embed(x.Request.Context(), query, func(input int, vector []float32) error {
		vectors[input] = vector
		return nil
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
