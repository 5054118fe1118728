package sample

import (
	"math/rand/v2"
	"testing"

	"parley"
)

const benchVocab = 151936

// modelLike returns scores shaped like a language model's: a broad bell of
// unlikely tokens and a few that stand out.
func modelLike(rng *rand.Rand, vocab int) []float32 {
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64()*2.5 - 1)
	}
	for i := range 24 {
		logits[rng.IntN(vocab)] = 18 - float32(i)*0.35
	}
	return logits
}

func benchmarkChoose(b *testing.B, s parley.Sampling, logits []float32) {
	sampler := New(s, nil, len(logits), 0)
	scratch := new(Scratch)
	b.ReportAllocs()
	for b.Loop() {
		token, err := sampler.Choose(logits, scratch)
		if err != nil {
			b.Fatal(err)
		}
		sampler.position++
		_ = token
	}
}

func BenchmarkChoose(b *testing.B) {
	logits := modelLike(rand.New(rand.NewPCG(1, 2)), benchVocab)
	for name, s := range map[string]parley.Sampling{
		"greedy":      {},
		"top_k=40":    {Temperature: 1, TopK: 40},
		"top_k=20000": {Temperature: 1, TopK: 20000},
		"top_p=0.9":   {Temperature: 1, TopP: 0.9},
		"temperature": {Temperature: 1},
		"min_p=0.05":  {Temperature: 1, MinP: 0.05},
		"chat": {Temperature: 0.7, TopK: 20, TopP: 0.8, PresencePenalty: 1,
			LogitBias: map[parley.Token]float32{5: -100}},
	} {
		b.Run(name, func(b *testing.B) { benchmarkChoose(b, s, logits) })
	}
}

func BenchmarkChooseFlat(b *testing.B) {
	logits := make([]float32, benchVocab)
	b.Run("temperature", func(b *testing.B) { benchmarkChoose(b, parley.Sampling{Temperature: 1}, logits) })
	b.Run("top_p=0.9", func(b *testing.B) { benchmarkChoose(b, parley.Sampling{Temperature: 1, TopP: 0.9}, logits) })
}

func BenchmarkLogprobs(b *testing.B) {
	logits := modelLike(rand.New(rand.NewPCG(1, 2)), benchVocab)
	scratch := new(Scratch)
	for name, top := range map[string]int{"top=0": 0, "top=20": 20} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Logprobs(logits, 7, top, scratch)
			}
		})
	}
}

func BenchmarkStopper(b *testing.B) {
	stop := parley.Stop{Strings: []string{"\n\nHuman:", "</answer>", "###", "aaaaaaab"}}
	text := []byte("aaaaaaa</answe")
	stopper := NewStopper(stop, nil, func(parley.Token) []byte { return text })
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		stopper.Push(1)
	}
}
