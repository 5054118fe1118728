package weights

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The architectures Parley runs.
const (
	ArchLlama    = "llama"
	ArchMistral  = "mistral"
	ArchQwen2    = "qwen2"
	ArchQwen3    = "qwen3"
	ArchQwen3MoE = "qwen3moe"
	ArchGemma3   = "gemma3"
)

// Architectures returns the names of the supported architectures.
func Architectures() []string {
	return []string{ArchLlama, ArchMistral, ArchQwen2, ArchQwen3, ArchQwen3MoE, ArchGemma3}
}

// The values of [Config.Activation].
const (
	ActivationSiLU     = "silu"
	ActivationGELUTanh = "gelu_tanh"
)

// A Config says how a model is built. It is the same for a model whichever
// file it came from, except for what the formats store differently: the order
// of rotated pairs ([Rope.Interleaved]) and Gemma's norms ([Config.NormOffset]).
type Config struct {
	// Architecture is one of [Architectures].
	Architecture string `json:"architecture"`

	Sizes
	Traits
	AttentionShape
	Mixture
	Marks
}

// Sizes are the numbers that a model's tensors follow from.
type Sizes struct {
	Layers  int `json:"layers"`
	Hidden  int `json:"hidden"`
	FFN     int `json:"ffn"`
	Heads   int `json:"heads"`
	KVHeads int `json:"kv_heads"`
	HeadDim int `json:"head_dim"`
	// Vocab is the number of rows of the embedding, which may be more than
	// the tokenizer has entries.
	Vocab int `json:"vocab"`
	// Context is how many tokens the model was made to take.
	Context int `json:"context"`
}

// Traits say which parts layers have, and how they compute.
type Traits struct {
	NormEps float32 `json:"norm_eps"`
	// NormOffset is added to every norm's weight: 1 for Gemma from Hugging
	// Face, whose files hold w for a factor of 1+w, and 0 otherwise (llama.cpp's
	// converter has already added it).
	NormOffset float32 `json:"norm_offset"`
	Activation string  `json:"activation"`
	// AttnBias says that the query, key and value projections have biases,
	// AttnOutBias that the output projection has one.
	AttnBias    bool `json:"attn_bias"`
	AttnOutBias bool `json:"attn_out_bias"`
	// MLPBias says that the projections of dense feed-forwards have biases.
	MLPBias bool `json:"mlp_bias"`
	// QKNorm says that queries and keys are normalized for each head.
	QKNorm bool `json:"qk_norm"`
	// PostNorms says that the outputs of attention and feed-forward are
	// normalized before they are added to the residual, as in Gemma.
	PostNorms bool `json:"post_norms"`
	// TieEmbeddings says that the embedding is also the output projection.
	TieEmbeddings bool `json:"tie_embeddings"`
}

// An AttentionShape says what tokens see of each other, and how scores are scaled.
type AttentionShape struct {
	Rope Rope `json:"rope"`
	// RopeLocal is what sliding layers use instead of Rope. For models
	// without such a difference it equals Rope.
	RopeLocal Rope `json:"rope_local"`

	// SlidingWindow is how many tokens, itself included, a token sees in a
	// sliding layer; 0 when there are none.
	SlidingWindow int `json:"sliding_window"`
	// Sliding says for each layer whether it is a sliding one.
	Sliding []bool `json:"sliding"`

	// AttnScale multiplies the products of queries and keys.
	AttnScale float32 `json:"attn_scale"`
	// AttnSoftcap and FinalSoftcap bound scores and logits as
	// cap*tanh(x/cap); 0 means no bound.
	AttnSoftcap  float32 `json:"attn_softcap"`
	FinalSoftcap float32 `json:"final_softcap"`
	// EmbedScale multiplies embeddings: the square root of Hidden for Gemma,
	// else 1. It is not rounded to bfloat16, because transformers casts it to
	// the type it computes in, which for Parley is float32.
	EmbedScale float32 `json:"embed_scale"`
}

// A Mixture describes the sparse layers.
type Mixture struct {
	// Experts is the number of experts of a sparse layer; 0 for a dense model.
	Experts         int  `json:"experts"`
	ExpertsPerToken int  `json:"experts_per_token"`
	ExpertFFN       int  `json:"expert_ffn"`
	NormTopK        bool `json:"norm_top_k"`
	// DenseLayers are the layers of a model with experts that have a plain
	// feed-forward.
	DenseLayers []int `json:"dense_layers,omitempty"`
}

// Marks are the tokens that begin and end a text.
type Marks struct {
	// BOS begins a text; -1 when the model has no such token.
	BOS int `json:"bos"`
	// EOS are the tokens that end an answer.
	EOS []int `json:"eos"`
}

// IsSparse reports whether the feed-forward of a layer consists of experts.
func (c *Config) IsSparse(layer int) bool {
	return c.Experts > 0 && !slices.Contains(c.DenseLayers, layer)
}

// QueryDim returns the width of all query heads together.
func (c *Config) QueryDim() int { return c.Heads * c.HeadDim }

// KVDim returns the width of all key heads together.
func (c *Config) KVDim() int { return c.KVHeads * c.HeadDim }

// observe sets what only the tensors tell.
func (c *Config) observe(ck *Checkpoint) {
	_, c.AttnBias = ck.Listed("blk.0.attn_q.bias")
	_, c.AttnOutBias = ck.Listed("blk.0.attn_output.bias")
	_, c.MLPBias = ck.Listed("blk.0.ffn_gate.bias")
	if ck.Format == FormatGGUF {
		_, hasOutput := ck.Listed("output.weight")
		c.TieEmbeddings = !hasOutput
		c.observeDense(ck)
	}
}

// observeDense finds the layers of a GGUF model with experts that have a plain
// feed-forward, which the metadata does not tell.
func (c *Config) observeDense(ck *Checkpoint) {
	for l := range c.Layers {
		if _, dense := ck.Listed(fmt.Sprintf("blk.%d.ffn_gate.weight", l)); dense && c.Experts > 0 {
			c.DenseLayers = append(c.DenseLayers, l)
		}
	}
}

// errUnknownArchitecture reports an architecture that is not supported.
func errUnknownArchitecture(name string) error {
	return fmt.Errorf("architecture %q is not supported: supported are %s", name, strings.Join(Architectures(), ", "))
}

// A limit is the range in which a number of a config must lie.
type limit struct {
	key      string
	value    int
	min, max int
}

// Validate reports every number that no real model has and every pair of
// numbers that contradict each other. A valid config can be used to size
// memory.
func (c *Config) Validate() error {
	if !slices.Contains(Architectures(), c.Architecture) {
		return errUnknownArchitecture(c.Architecture)
	}
	if err := c.validateSizes(); err != nil {
		return err
	}
	return errors.Join(c.validateAttention(), c.validateExperts(), c.validateFloats(), c.validateTokens(),
		c.Rope.validate("rope"), c.RopeLocal.validate("local rope"))
}

// layersMax and its like are several times what the largest published models
// have.
const (
	layersMax  = 1 << 10
	hiddenMax  = 1 << 18
	ffnMax     = 1 << 21
	headsMax   = 1 << 12
	headDimMax = 1 << 12
	vocabMax   = 1 << 24
	contextMax = 1 << 30
	expertsMax = 1 << 14
)

func (c *Config) validateSizes() error {
	ffnMin := 1
	if c.Experts > 0 {
		ffnMin = 0
	}
	return checkLimits([]limit{
		{"layers", c.Layers, 1, layersMax},
		{"hidden size", c.Hidden, 1, hiddenMax},
		{"feed-forward size", c.FFN, ffnMin, ffnMax},
		{"attention heads", c.Heads, 1, headsMax},
		{"key/value heads", c.KVHeads, 1, headsMax},
		{"head size", c.HeadDim, 2, headDimMax},
		{"vocabulary size", c.Vocab, 1, vocabMax},
		{"context length", c.Context, 1, contextMax},
		{"sliding window", c.SlidingWindow, 0, contextMax},
		{"experts", c.Experts, 0, expertsMax},
	})
}

func checkLimits(limits []limit) error {
	var errs []error
	for _, l := range limits {
		if l.value < l.min || l.value > l.max {
			errs = append(errs, fmt.Errorf("%s is %d: want %d to %d", l.key, l.value, l.min, l.max))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) validateAttention() error {
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("%d attention heads cannot share %d key/value heads evenly", c.Heads, c.KVHeads)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("head size %d is odd, so its elements cannot rotate in pairs", c.HeadDim)
	}
	if c.QueryDim() > hiddenMax {
		return fmt.Errorf("%d heads of size %d are wider than the %d allowed", c.Heads, c.HeadDim, hiddenMax)
	}
	if len(c.Sliding) != c.Layers {
		return fmt.Errorf("layer types are given for %d layers of %d", len(c.Sliding), c.Layers)
	}
	if slices.Contains(c.Sliding, true) != (c.SlidingWindow > 0) {
		return fmt.Errorf("sliding window is %d, which does not agree with the types of the layers", c.SlidingWindow)
	}
	if n := len(c.Rope.FreqFactors); n != 0 && n != c.HeadDim/2 {
		return fmt.Errorf("rope_freqs.weight has %d factors: want %d for a head size of %d", n, c.HeadDim/2, c.HeadDim)
	}
	return nil
}

func (c *Config) validateExperts() error {
	if c.Architecture == ArchQwen3MoE && c.Experts == 0 {
		return fmt.Errorf("architecture %s needs experts, but their number is 0", c.Architecture)
	}
	if c.Experts == 0 {
		return nil
	}
	if c.Architecture != ArchQwen3MoE {
		return fmt.Errorf("architecture %s with %d experts is not supported", c.Architecture, c.Experts)
	}
	if c.FFN == 0 && len(c.DenseLayers) > 0 {
		return fmt.Errorf("feed-forward size is 0, but %d layers are dense", len(c.DenseLayers))
	}
	for _, l := range c.DenseLayers {
		if l < 0 || l >= c.Layers {
			return fmt.Errorf("dense layer %d does not exist: there are %d layers", l, c.Layers)
		}
	}
	return checkLimits([]limit{
		{"experts per token", c.ExpertsPerToken, 1, c.Experts},
		{"expert feed-forward size", c.ExpertFFN, 1, ffnMax},
	})
}

func (c *Config) validateFloats() error {
	if !(c.NormEps >= 0 && c.NormEps < 1) {
		return fmt.Errorf("norm epsilon is %g: want 0 to 1", c.NormEps)
	}
	for _, f := range []struct {
		key   string
		value float32
	}{{"attention scale", c.AttnScale}, {"embedding scale", c.EmbedScale}} {
		if !(f.value > 0) || math.IsInf(float64(f.value), 0) {
			return fmt.Errorf("%s is %g: want a positive number", f.key, f.value)
		}
	}
	for _, limit := range []float32{c.AttnSoftcap, c.FinalSoftcap} {
		if !(limit >= 0) || math.IsInf(float64(limit), 0) {
			return fmt.Errorf("softcap is %g: want 0 or a positive number", limit)
		}
	}
	return nil
}

func (c *Config) validateTokens() error {
	if c.BOS < -1 || c.BOS >= c.Vocab {
		return fmt.Errorf("bos_token_id is %d: the vocabulary has %d entries", c.BOS, c.Vocab)
	}
	for _, id := range c.EOS {
		if id < 0 || id >= c.Vocab {
			return fmt.Errorf("eos_token_id is %d: the vocabulary has %d entries", id, c.Vocab)
		}
	}
	return nil
}

// finish fills in what follows from the rest, after the sizes are known to be
// sane.
func (c *Config) finish() {
	if c.AttnScale == 0 {
		c.AttnScale = float32(1 / math.Sqrt(float64(c.HeadDim)))
	}
	c.EmbedScale = 1
	c.Activation = ActivationSiLU
	switch c.Architecture {
	case ArchGemma3:
		c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
		c.Activation = ActivationGELUTanh
		c.QKNorm, c.PostNorms = true, true
	case ArchQwen3, ArchQwen3MoE:
		c.QKNorm = true
	}
	if c.Architecture != ArchGemma3 {
		c.RopeLocal = c.Rope
	}
}

// slidingEvery returns the layer kinds of a model in which every period-th
// layer is global and the others slide; with period 0 all slide.
func slidingEvery(layers, period int) []bool {
	sliding := make([]bool, layers)
	for i := range sliding {
		sliding[i] = period == 0 || (i+1)%period != 0
	}
	return sliding
}
