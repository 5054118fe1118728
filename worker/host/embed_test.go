package host

import (
	"math"
	"testing"

	"parley"
	"parley/token"
)

// TestEmbeddingsOfRelatedTextsAreNear embeds with the built-in model: a
// paraphrase is nearer than another subject.
func TestEmbeddingsOfRelatedTextsAreNear(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly"), Config{})
	embed := func(text string) (v []float32) {
		prompt, err := h.Tokenizer.Encode(text, token.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for d, err := range h.Generate(t.Context(), &parley.Request{Prompt: prompt, Embed: true}) {
			if err != nil {
				t.Fatal(err)
			}
			v = d.Embedding
		}
		return v
	}
	question, near, far := embed("What is the capital of France?"), embed("Tell me the capital city of France."), embed(
		"My cat likes to sleep in the sun all day.")
	if cosine(question, near) <= cosine(question, far) {
		t.Errorf("near %v, far %v", cosine(question, near), cosine(question, far))
	}
}

func cosine(a, b []float32) float64 {
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return dot / math.Sqrt(aa*bb)
}
