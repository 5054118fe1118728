package openaigo

import (
	"math"
	"testing"

	"github.com/openai/openai-go/v3"
)

func testEmbeddings(t *testing.T, s *server) {
	answer, err := s.client().Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: mini, Dimensions: openai.Int(16),
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"A fox.", "The moon is bright tonight."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) != 2 || answer.Usage.PromptTokens == 0 {
		t.Fatalf("answer %s", answer.RawJSON())
	}
	for i, d := range answer.Data {
		length := 0.0
		for _, x := range d.Embedding {
			length += x * x
		}
		if d.Index != int64(i) || len(d.Embedding) != 16 || math.Abs(length-1) > 1e-5 {
			t.Errorf("embedding %s", d.RawJSON())
		}
	}
}
