package weights

import (
	"fmt"
	"slices"
	"strings"
)

// A Fallback is a tensor whose rows do not fit the blocks of the wanted type
// and that is therefore stored as another.
type Fallback struct {
	Tensor string `json:"tensor"`
	Wanted DType  `json:"wanted"`
	Used   DType  `json:"used"`
}

// String says what was stored instead of what.
func (f Fallback) String() string {
	return fmt.Sprintf("%s: rows do not fit %s, stored as %s", f.Tensor, f.Wanted, f.Used)
}

// fileTypes are the numbers by which llama.cpp knows a model whose matrices
// mostly have one type.
var fileTypes = map[DType]uint32{
	F32:  0,
	F16:  1,
	Q4_0: 2,
	Q4_1: 3,
	Q8_0: 7,
	Q5_0: 8,
	Q5_1: 9,
	Q4_K: 15,
	Q5_K: 17,
	Q6_K: 18,
	BF16: 32,
}

// plannedTensor is a tensor of a file that is being written.
type plannedTensor struct {
	expectation
	dtype DType
}

// planStorage decides the type of every tensor of a model that is mostly
// stored as quant.
func planStorage(c *Config, quant DType) ([]plannedTensor, []Fallback, error) {
	if _, ok := fileTypes[quant]; !ok {
		return nil, nil, fmt.Errorf("models cannot be written as %s: use one of %v", quant, computableNames())
	}
	var plan []plannedTensor
	var fallbacks []Fallback
	for _, e := range c.expectations() {
		wanted := wantedType(e, quant, c.Layers)
		used := fittingType(wanted, e.shape[len(e.shape)-1])
		if used != wanted {
			fallbacks = append(fallbacks, Fallback{e.name, wanted, used})
		}
		plan = append(plan, plannedTensor{e, used})
	}
	return plan, fallbacks, nil
}

// wantedType returns the type a tensor should have: vectors and the routers of
// experts stay exact, and the smaller K types leave six bits to the tensors to
// which answers are most sensitive, as llama.cpp's Q4_K_M and Q5_K_M do.
func wantedType(e expectation, quant DType, layers int) DType {
	switch {
	case len(e.shape) == 1 || e.name == fmt.Sprintf("blk.%d.ffn_gate_inp.weight", e.layer):
		return F32
	case (quant == Q4_K || quant == Q5_K) && isSensitive(e, layers):
		return Q6_K
	}
	return quant
}

// isSensitive is true of the vocabulary's matrices, and in the first and last
// eighth of the layers and in every third between of the values of attention
// and the way down of the feed-forward part.
func isSensitive(e expectation, layers int) bool {
	if e.class == classEmbedding || e.class == classOutput {
		return true
	}
	first := layers / 8
	if e.layer >= first && e.layer < 7*layers/8 && (e.layer-first)%3 != 2 {
		return false
	}
	return strings.Contains(e.name, ".attn_v.") || strings.Contains(e.name, ".ffn_down")
}

// fittingType returns t, or the type that llama.cpp stores instead when rows
// of cols elements do not fill whole blocks.
func fittingType(t DType, cols int) DType {
	instead := map[DType]DType{Q4_K: Q5_0, Q5_K: Q5_1, Q6_K: Q8_0}
	for cols%t.BlockLen() != 0 {
		smaller, ok := instead[t]
		if !ok {
			return F16
		}
		t = smaller
	}
	return t
}

// metaEntry is one line of metadata to be written.
type metaEntry struct {
	key   string
	value any
}

// ggufArchitecture returns the name GGUF has for an architecture.
func ggufArchitecture(arch string) string {
	if arch == ArchMistral {
		return ArchLlama
	}
	return arch
}

// configMeta returns the metadata that describe the model.
func configMeta(c *Config, quant DType) []metaEntry {
	arch := ggufArchitecture(c.Architecture)
	u := func(key string, v int) metaEntry { return metaEntry{arch + "." + key, uint32(v)} }
	f := func(key string, v float64) metaEntry { return metaEntry{arch + "." + key, float32(v)} }
	list := []metaEntry{
		{"general.file_type", fileTypes[quant]},
		{"general.quantization_version", uint32(2)},
		u("block_count", c.Layers),
		u("context_length", c.Context),
		u("embedding_length", c.Hidden),
		u("feed_forward_length", c.FFN),
		u("vocab_size", c.Vocab),
		u("attention.head_count", c.Heads),
		u("attention.head_count_kv", c.KVHeads),
		u("attention.key_length", c.HeadDim),
		u("attention.value_length", c.HeadDim),
		f("attention.layer_norm_rms_epsilon", float64(c.NormEps)),
		u("rope.dimension_count", c.HeadDim),
		f("rope.freq_base", c.Rope.Theta),
	}
	list = append(list, ropeMeta(c, u, f)...)
	if c.Architecture == ArchGemma3 {
		list = append(list, f("attention.scale", float64(c.AttnScale)))
	}
	if c.FinalSoftcap != 0 {
		list = append(list, f("final_logit_softcapping", float64(c.FinalSoftcap)))
	}
	if c.SlidingWindow > 0 {
		list = append(list, u("attention.sliding_window", c.SlidingWindow))
		list = append(list, patternMeta(c, arch)...)
	}
	if c.Experts > 0 {
		list = append(list,
			u("expert_count", c.Experts),
			u("expert_used_count", c.ExpertsPerToken),
			u("expert_feed_forward_length", c.ExpertFFN),
			metaEntry{arch + ".expert_weights_norm", c.NormTopK})
	}
	return list
}

// ropeMeta returns the scaling keys. The llama3 type has none: it is stored as
// the tensor rope_freqs.weight.
func ropeMeta(c *Config, u func(string, int) metaEntry, f func(string, float64) metaEntry) []metaEntry {
	arch := ggufArchitecture(c.Architecture)
	var list []metaEntry
	switch c.Rope.Type {
	case RopeLinear:
		list = append(list, metaEntry{arch + ".rope.scaling.type", RopeLinear}, f("rope.scaling.factor", c.Rope.Factor))
	case RopeYarn:
		list = append(list, metaEntry{arch + ".rope.scaling.type", RopeYarn},
			f("rope.scaling.factor", c.Rope.Factor),
			u("rope.scaling.original_context_length", c.Rope.OriginalContext),
			f("rope.scaling.yarn_attn_factor", c.Rope.AttentionFactor),
			f("rope.scaling.yarn_beta_fast", c.Rope.BetaFast),
			f("rope.scaling.yarn_beta_slow", c.Rope.BetaSlow))
	}
	if c.Architecture == ArchGemma3 {
		list = append(list, f("rope.freq_base_swa", c.RopeLocal.Theta))
	}
	return list
}

// patternMeta says which layers slide, where the architecture alone does not:
// in Llama models all do, in Gemma every sixth does not.
func patternMeta(c *Config, arch string) []metaEntry {
	key := arch + ".attention.sliding_window_pattern"
	if arch == ArchLlama {
		return nil
	}
	for period := 1; arch == ArchGemma3 && period <= c.Layers+1; period++ {
		if slices.Equal(c.Sliding, slidingEvery(c.Layers, period)) {
			return []metaEntry{{key, uint32(period)}}
		}
	}
	return []metaEntry{{key, c.Sliding}}
}

// freqFactorsOf returns the contents of rope_freqs.weight, or nil when the
// model needs none.
func freqFactorsOf(c *Config) []float32 {
	if c.Rope.Type == RopeLlama3 {
		return c.Rope.llama3Factors(c.HeadDim)
	}
	return c.Rope.FreqFactors
}
