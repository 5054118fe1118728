package weights

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ggufKeys reads metadata of one architecture, whose keys begin with its name,
// and remembers what was wrong.
type ggufKeys struct {
	meta map[string]any
	arch string
	errs []error
}

// number returns a whole number. A per-layer list is accepted where all
// entries agree.
func (k *ggufKeys) number(key string, fallback int, required bool) int {
	full := k.arch + "." + key
	v, there := k.meta[full]
	n, ok := ggufInt(k.meta, full)
	if list, isList := uniformList(v); isList {
		n, ok = list, true
	}
	switch {
	case !there && required:
		k.errs = append(k.errs, fmt.Errorf("metadata %s is missing", full))
	case there && (!ok || n < math.MinInt32 || n > math.MaxInt32):
		k.errs = append(k.errs, fmt.Errorf("metadata %s is %v: want one whole number below 2^31", full, shorten(v)))
	case there:
		return int(n)
	}
	return fallback
}

// uniformList returns the value of a list of equal whole numbers.
func uniformList(v any) (int64, bool) {
	switch list := v.(type) {
	case []int32:
		return uniform(list)
	case []uint32:
		return uniform(list)
	case []int64:
		return uniform(list)
	}
	return 0, false
}

func uniform[T int32 | uint32 | int64](list []T) (int64, bool) {
	if len(list) == 0 || slices.ContainsFunc(list, func(v T) bool { return v != list[0] }) {
		return 0, false
	}
	return int64(list[0]), true
}

// shorten makes a value from a file fit into an error message.
func shorten(v any) string {
	const textMax = 60
	if text, ok := v.(string); ok {
		return fmt.Sprintf("%.*q", textMax, text)
	}
	if _, scalar := valueKind(v); scalar {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("a %T", v)
}

func (k *ggufKeys) float(key string, fallback float64) float64 {
	full := k.arch + "." + key
	v, there := k.meta[full]
	if !there {
		return fallback
	}
	f, ok := ggufFloat(k.meta, full)
	if !ok {
		k.errs = append(k.errs, fmt.Errorf("metadata %s is %v: want a number", full, shorten(v)))
	}
	return f
}

// readGGUFConfig reads the hyper-parameters of a GGUF model.
func readGGUFConfig(ck *Checkpoint) (Config, error) {
	arch, ok := ck.meta["general.architecture"].(string)
	if !ok {
		return Config{}, errors.New("metadata general.architecture is missing or not a text")
	}
	if !slices.Contains(Architectures(), arch) || arch == ArchMistral {
		return Config{}, errUnknownArchitecture(arch)
	}
	k := &ggufKeys{meta: ck.meta, arch: arch}
	c := k.sizes(ck)
	if err := errors.Join(append(k.errs, c.validateSizes())...); err != nil {
		return Config{}, err
	}
	k.attention(&c)
	k.experts(&c)
	k.tokens(&c)
	c.Rope = k.rope(&c)
	if arch == ArchGemma3 {
		c.RopeLocal = plainRope(k.float("rope.freq_base_swa", 10_000))
	}
	k.freqFactors(&c, ck)
	if err := errors.Join(k.errs...); err != nil {
		return Config{}, err
	}
	c.finish()
	return c, c.Validate()
}

func (k *ggufKeys) sizes(ck *Checkpoint) Config {
	c := Config{
		Architecture: k.arch,
		Sizes: Sizes{
			Layers:  k.number("block_count", 0, true),
			Hidden:  k.number("embedding_length", 0, true),
			Heads:   k.number("attention.head_count", 0, true),
			Context: k.number("context_length", 0, true),
			Vocab:   k.number("vocab_size", 0, false),
		},
		Traits:  Traits{NormEps: float32(k.float("attention.layer_norm_rms_epsilon", 1e-6))},
		Mixture: Mixture{Experts: k.number("expert_count", 0, false)},
	}
	c.FFN = k.number("feed_forward_length", 0, c.Experts == 0)
	c.KVHeads = k.number("attention.head_count_kv", c.Heads, false)
	if embedding, ok := ck.Tensor("token_embd.weight"); ok && len(embedding.Shape) == 2 {
		c.Vocab = embedding.Shape[0]
	}
	fallback := 0
	if c.Heads > 0 && c.Hidden%c.Heads == 0 {
		fallback = c.Hidden / c.Heads
	}
	c.HeadDim = k.number("attention.key_length", fallback, false)
	if v := k.number("attention.value_length", c.HeadDim, false); v != c.HeadDim {
		k.errs = append(k.errs,
			fmt.Errorf("metadata %s.attention.value_length is %d: only values as long as keys (%d) are supported",
				k.arch, v, c.HeadDim))
	}
	if d := k.number("rope.dimension_count", c.HeadDim, false); d != c.HeadDim {
		k.errs = append(k.errs,
			fmt.Errorf("metadata %s.rope.dimension_count is %d: only rotation of the whole head (%d) is supported",
				k.arch, d, c.HeadDim))
	}
	return c
}

func (k *ggufKeys) attention(c *Config) {
	c.AttnSoftcap = float32(k.float("attn_logit_softcapping", 0))
	c.FinalSoftcap = float32(k.float("final_logit_softcapping", 0))
	c.AttnScale = float32(k.float("attention.scale", 0))
	c.Sliding = make([]bool, c.Layers)
	window := k.number("attention.sliding_window", 0, false)
	if c.Architecture == ArchGemma3 && c.AttnScale == 0 {
		c.AttnScale = gemmaScale(c)
	}
	if window <= 0 {
		return
	}
	c.SlidingWindow = window
	switch c.Architecture {
	case ArchLlama:
		c.Sliding = slidingEvery(c.Layers, 0)
	case ArchGemma3:
		c.Sliding = k.slidingPattern(c)
	default:
		c.Sliding = k.slidingPattern(c)
		if _, ok := k.meta[k.arch+".attention.sliding_window_pattern"]; !ok {
			c.Sliding = make([]bool, c.Layers)
		}
	}
	if !slices.Contains(c.Sliding, true) {
		c.SlidingWindow = 0
	}
}

// gemmaScale is what a Gemma file leaves unsaid: the 27B model scales by the
// width of a head's share of the hidden state, the others by the head.
func gemmaScale(c *Config) float32 {
	const layersOf27B = 62
	if c.Layers == layersOf27B {
		return float32(1 / math.Sqrt(float64(c.Hidden/c.Heads)))
	}
	return float32(1 / math.Sqrt(float64(c.HeadDim)))
}

// slidingPattern reads which layers slide: one bool for each, or the period of
// global layers.
func (k *ggufKeys) slidingPattern(c *Config) []bool {
	const key = "attention.sliding_window_pattern"
	if list, ok := k.meta[k.arch+"."+key].([]bool); ok {
		return list
	}
	period := k.number(key, 6, false)
	if period < 0 {
		k.errs = append(k.errs, fmt.Errorf("metadata %s.%s is %d: want 0 or more", k.arch, key, period))
		return make([]bool, c.Layers)
	}
	return slidingEvery(c.Layers, period)
}

func (k *ggufKeys) experts(c *Config) {
	if c.Experts == 0 {
		return
	}
	c.ExpertsPerToken = k.number("expert_used_count", 0, true)
	fallback := 0
	if c.ExpertsPerToken > 0 {
		fallback = c.FFN / c.ExpertsPerToken
	}
	c.ExpertFFN = k.number("expert_feed_forward_length", fallback, false)
	c.NormTopK = true
	if norm, ok := k.meta[k.arch+".expert_weights_norm"].(bool); ok {
		c.NormTopK = norm
	}
}

func (k *ggufKeys) tokens(c *Config) {
	token := func(key string) int {
		if _, there := k.meta["tokenizer.ggml."+key]; !there {
			return -1
		}
		n, ok := ggufInt(k.meta, "tokenizer.ggml."+key)
		if !ok || n < -1 || n >= int64(c.Vocab) {
			k.errs = append(k.errs, fmt.Errorf("metadata tokenizer.ggml.%s is %v: the vocabulary has %d entries", key,
				shorten(k.meta["tokenizer.ggml."+key]), c.Vocab))
			return -1
		}
		return int(n)
	}
	c.BOS = token("bos_token_id")
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if id := token(key); id >= 0 {
			c.EOS = union(c.EOS, []int{id})
		}
	}
}

func (k *ggufKeys) rope(c *Config) Rope {
	theta := 10_000.0
	if k.arch == ArchGemma3 {
		theta = 1_000_000
	}
	r := plainRope(k.float("rope.freq_base", theta))
	r.Interleaved = k.arch == ArchLlama
	factor := k.float("rope.scaling.factor", k.float("rope.scale_linear", 1))
	if factor == 0 {
		factor = 1
	}
	kind, _ := k.meta[k.arch+".rope.scaling.type"].(string)
	switch kind {
	case "", RopeLinear:
		if factor != 1 {
			r.Type, r.Factor = RopeLinear, factor
		}
	case "none":
	case RopeYarn:
		r.Type, r.Factor = RopeYarn, factor
		r.OriginalContext = k.number("rope.scaling.original_context_length", c.Context, false)
		r.BetaFast = k.float("rope.scaling.yarn_beta_fast", 32)
		r.BetaSlow = k.float("rope.scaling.yarn_beta_slow", 1)
		r.AttentionFactor = k.float("rope.scaling.yarn_attn_factor",
			yarnMscale(factor, 1)) * k.float("rope.scaling.attn_factor", 1)
		c.Context = stretchedContext(c.Context, r)
	default:
		r.Type = kind
	}
	return r
}

// freqFactors reads rope_freqs.weight, a small tensor beside the weights.
func (k *ggufKeys) freqFactors(c *Config, ck *Checkpoint) {
	t, ok := ck.Tensor("rope_freqs.weight")
	if !ok {
		return
	}
	if t.Elements() != int64(c.HeadDim/2) {
		k.errs = append(k.errs, fmt.Errorf("tensor rope_freqs.weight has %d elements: want %d for a head size of %d",
			t.Elements(), c.HeadDim/2, c.HeadDim))
		return
	}
	factors, err := t.Float32s()
	if err != nil {
		k.errs = append(k.errs, err)
		return
	}
	c.Rope.FreqFactors = factors
}
