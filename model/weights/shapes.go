package weights

import (
	"fmt"
	"slices"
	"strings"
)

// A Shape is the size of a model without its weights, for [WriteRandom].
type Shape struct {
	Name string
	// Config is complete but for what the vocabulary decides (BOS and EOS).
	Config Config
}

// Shapes returns the named shapes: published models to measure with, and tiny
// ones of each architecture to test with.
func Shapes() []Shape {
	llama3 := Rope{
		Theta:           500_000,
		Type:            RopeLlama3,
		Factor:          8,
		LowFreqFactor:   1,
		HighFreqFactor:  4,
		OriginalContext: 8192,
		AttentionFactor: 1,
	}
	llama32 := llama3
	llama32.Factor = 32
	shapes := []Shape{
		{"llama-135m", Config{
			Architecture: ArchLlama,
			Sizes: Sizes{
				Layers:  30,
				Hidden:  576,
				FFN:     1536,
				Heads:   9,
				KVHeads: 3,
				HeadDim: 64,
				Vocab:   49152,
				Context: 8192,
			},
			Traits:         Traits{NormEps: 1e-5, TieEmbeddings: true},
			AttentionShape: AttentionShape{Rope: plainRope(100_000)},
		}},
		{"llama-1b", Config{
			Architecture: ArchLlama,
			Sizes: Sizes{
				Layers:  16,
				Hidden:  2048,
				FFN:     8192,
				Heads:   32,
				KVHeads: 8,
				HeadDim: 64,
				Vocab:   128256,
				Context: 131072,
			},
			Traits:         Traits{NormEps: 1e-5, TieEmbeddings: true},
			AttentionShape: AttentionShape{Rope: llama32},
		}},
		{"llama-8b", Config{
			Architecture: ArchLlama,
			Sizes: Sizes{
				Layers:  32,
				Hidden:  4096,
				FFN:     14336,
				Heads:   32,
				KVHeads: 8,
				HeadDim: 128,
				Vocab:   128256,
				Context: 131072,
			},
			Traits:         Traits{NormEps: 1e-5},
			AttentionShape: AttentionShape{Rope: llama3},
		}},
		{"llama-70b", Config{
			Architecture: ArchLlama,
			Sizes: Sizes{
				Layers:  80,
				Hidden:  8192,
				FFN:     28672,
				Heads:   64,
				KVHeads: 8,
				HeadDim: 128,
				Vocab:   128256,
				Context: 131072,
			},
			Traits:         Traits{NormEps: 1e-5},
			AttentionShape: AttentionShape{Rope: llama3},
		}},
		{"qwen3-0.6b", Config{
			Architecture: ArchQwen3,
			Sizes: Sizes{
				Layers:  28,
				Hidden:  1024,
				FFN:     3072,
				Heads:   16,
				KVHeads: 8,
				HeadDim: 128,
				Vocab:   151936,
				Context: 40960,
			},
			Traits:         Traits{NormEps: 1e-6, TieEmbeddings: true},
			AttentionShape: AttentionShape{Rope: plainRope(1_000_000)},
		}},
		{"qwen3-14b", Config{
			Architecture: ArchQwen3,
			Sizes: Sizes{
				Layers:  40,
				Hidden:  5120,
				FFN:     17408,
				Heads:   40,
				KVHeads: 8,
				HeadDim: 128,
				Vocab:   151936,
				Context: 40960,
			},
			Traits:         Traits{NormEps: 1e-6},
			AttentionShape: AttentionShape{Rope: plainRope(1_000_000)},
		}},
		{"qwen3-30b-a3b", Config{
			Architecture: ArchQwen3MoE,
			Sizes: Sizes{
				Layers:  48,
				Hidden:  2048,
				FFN:     6144,
				Heads:   32,
				KVHeads: 4,
				HeadDim: 128,
				Vocab:   151936,
				Context: 40960,
			},
			Traits:         Traits{NormEps: 1e-6},
			AttentionShape: AttentionShape{Rope: plainRope(1_000_000)},
			Mixture:        Mixture{Experts: 128, ExpertsPerToken: 8, ExpertFFN: 768, NormTopK: true},
		}},
	}
	shapes = append(shapes, tinyShapes()...)
	for i := range shapes {
		shapes[i].complete()
	}
	return shapes
}

// tinyShapes have one trait each that sets their architecture apart, and rows
// of 256 so that every type fits.
func tinyShapes() []Shape {
	tiny := Config{
		Sizes: Sizes{
			Layers:  2,
			Hidden:  256,
			FFN:     512,
			Heads:   4,
			KVHeads: 2,
			HeadDim: 64,
			Vocab:   512,
			Context: 512,
		},
		Traits:         Traits{NormEps: 1e-6, TieEmbeddings: true},
		AttentionShape: AttentionShape{Rope: plainRope(10_000)},
	}
	llama, mistral, qwen2, qwen3, moe, gemma := tiny, tiny, tiny, tiny, tiny, tiny
	llama.Architecture = ArchLlama
	mistral.Architecture, mistral.SlidingWindow, mistral.TieEmbeddings = ArchMistral, 64, false
	qwen2.Architecture, qwen2.AttnBias = ArchQwen2, true
	qwen3.Architecture = ArchQwen3
	moe.Architecture, moe.Experts, moe.ExpertsPerToken, moe.ExpertFFN, moe.NormTopK = ArchQwen3MoE, 8, 2, 256, true
	gemma.Architecture, gemma.Layers, gemma.SlidingWindow = ArchGemma3, 7, 64
	gemma.Rope, gemma.RopeLocal = plainRope(1_000_000), plainRope(10_000)
	return []Shape{
		{"tiny-llama", llama}, {"tiny-mistral", mistral}, {"tiny-qwen2", qwen2}, {"tiny-qwen3", qwen3},
		{"tiny-qwen3moe", moe}, {"tiny-gemma3", gemma},
	}
}

// complete fills in what the architecture decides.
func (s *Shape) complete() {
	c := &s.Config
	switch {
	case c.SlidingWindow == 0:
		c.Sliding = make([]bool, c.Layers)
	case c.Architecture == ArchGemma3:
		c.Sliding = slidingEvery(c.Layers, 6)
	default:
		c.Sliding = slidingEvery(c.Layers, 0)
	}
	c.finish()
	c.BOS, c.EOS = syntheticBOS, []int{syntheticEOS}
}

// ShapeNamed returns the shape with the name.
func ShapeNamed(name string) (Shape, error) {
	shapes := Shapes()
	if i := slices.IndexFunc(shapes, func(s Shape) bool { return s.Name == name }); i >= 0 {
		return shapes[i], nil
	}
	var names []string
	for _, s := range shapes {
		names = append(names, s.Name)
	}
	return Shape{}, fmt.Errorf("unknown model shape %q: known are %s", name, strings.Join(names, ", "))
}
