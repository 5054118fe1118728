package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"parley/model/f8"
	"parley/model/int4"
)

// hfConfig is the part of config.json that matters here. Pointers tell an
// absent key from a zero.
type hfConfig struct {
	ModelType         string          `json:"model_type"`
	TextConfig        json.RawMessage `json:"text_config"`
	Quantization      json.RawMessage `json:"quantization_config"`
	f8                *f8.Scheme
	int4              *int4.Scheme
	Layers            int       `json:"num_hidden_layers"`
	Hidden            int       `json:"hidden_size"`
	FFN               int       `json:"intermediate_size"`
	Heads             int       `json:"num_attention_heads"`
	KVHeads           *int      `json:"num_key_value_heads"`
	HeadDim           *int      `json:"head_dim"`
	Vocab             int       `json:"vocab_size"`
	Context           int       `json:"max_position_embeddings"`
	NormEps           *float64  `json:"rms_norm_eps"`
	HiddenAct         string    `json:"hidden_act"`
	HiddenActivation  string    `json:"hidden_activation"`
	Tie               *bool     `json:"tie_word_embeddings"`
	RopeTheta         *float64  `json:"rope_theta"`
	RopeLocalTheta    *float64  `json:"rope_local_base_freq"`
	RopeScaling       *hfRope   `json:"rope_scaling"`
	RopeParameters    *hfRope   `json:"rope_parameters"`
	PartialRotary     *float64  `json:"partial_rotary_factor"`
	LayerTypes        []string  `json:"layer_types"`
	SlidingWindow     *int      `json:"sliding_window"`
	SlidingPattern    *int      `json:"sliding_window_pattern"`
	OldSlidingPattern *int      `json:"_sliding_window_pattern"`
	UseSlidingWindow  bool      `json:"use_sliding_window"`
	MaxWindowLayers   *int      `json:"max_window_layers"`
	Bidirectional     bool      `json:"use_bidirectional_attention"`
	QueryScalar       *float64  `json:"query_pre_attn_scalar"`
	AttnSoftcap       *float64  `json:"attn_logit_softcapping"`
	FinalSoftcap      *float64  `json:"final_logit_softcapping"`
	Experts           *int      `json:"num_experts"`
	LocalExperts      *int      `json:"num_local_experts"`
	ExpertsPerToken   *int      `json:"num_experts_per_tok"`
	ExpertFFN         *int      `json:"moe_intermediate_size"`
	NormTopK          bool      `json:"norm_topk_prob"`
	SparseStep        *int      `json:"decoder_sparse_step"`
	DenseLayers       []int     `json:"mlp_only_layers"`
	BOS               *int      `json:"bos_token_id"`
	EOS               intOrList `json:"eos_token_id"`
}

// intOrList is a number or a list of numbers.
type intOrList []int

// UnmarshalJSON reads a number, a list of numbers, or null.
func (l *intOrList) UnmarshalJSON(text []byte) error {
	var one *int
	if json.Unmarshal(text, &one) == nil {
		*l = nil
		if one != nil {
			*l = intOrList{*one}
		}
		return nil
	}
	var many []int
	if err := json.Unmarshal(text, &many); err != nil {
		return fmt.Errorf("want a number or a list of numbers: %w", err)
	}
	*l = many
	return nil
}

// architecturesByModelType names the architecture for each model_type that
// transformers writes.
var architecturesByModelType = map[string]string{
	"llama":       ArchLlama,
	"mistral":     ArchMistral,
	"qwen2":       ArchQwen2,
	"qwen3":       ArchQwen3,
	"qwen3_moe":   ArchQwen3MoE,
	"gemma3":      ArchGemma3,
	"gemma3_text": ArchGemma3,
}

// readHFConfig reads config.json and generation_config.json.
func readHFConfig(dir string) (Config, error) {
	text, err := readText(dir, "config.json")
	if err != nil {
		return Config{}, err
	}
	if text == nil {
		return Config{}, errors.New("the directory has no config.json")
	}
	generation, err := readText(dir, "generation_config.json")
	if err != nil {
		return Config{}, err
	}
	return parseHFConfig(text, generation)
}

// CheckDirectory reports what keeps a directory from being served that its config.json
// says. The weights need not be there yet.
func CheckDirectory(dir string) error {
	_, err := readHFConfig(dir)
	return err
}

// parseHFConfig turns the text of config.json, and of generation_config.json
// if there is one, into a validated Config.
func parseHFConfig(text, generation []byte) (Config, error) {
	h, err := decodeHFConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	c, err := h.config()
	if err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	if generation != nil {
		var g struct {
			EOS intOrList `json:"eos_token_id"`
		}
		if err := json.Unmarshal(generation, &g); err != nil {
			return Config{}, fmt.Errorf("generation_config.json: %w", err)
		}
		c.EOS = union(c.EOS, g.EOS)
	}
	if err := c.Validate(); err != nil {
		return Config{}, fmt.Errorf("config.json: %w", err)
	}
	return c, nil
}

func union(a, b []int) []int {
	out := slices.Clone(a)
	for _, id := range b {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// decodeHFConfig decodes config.json. Of a model that also sees, the language
// model's part lies in text_config, over defaults of the outer one.
func decodeHFConfig(text []byte) (*hfConfig, error) {
	var h hfConfig
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, err
	}
	if len(h.TextConfig) > 0 && string(h.TextConfig) != "null" {
		outer, inner := h.ModelType, h.TextConfig
		h.TextConfig = nil
		if err := json.Unmarshal(inner, &h); err != nil {
			return nil, fmt.Errorf("text_config: %w", err)
		}
		if _, ok := architecturesByModelType[outer]; !ok {
			h.ModelType = outer
		}
	}
	var err error
	if h.int4, err = int4.ParseScheme(h.Quantization); h.int4 == nil && err == nil {
		h.f8, err = f8.ParseScheme(h.Quantization)
	}
	if err != nil {
		return nil, err
	}
	return &h, nil
}

func (h *hfConfig) config() (Config, error) {
	arch, ok := architecturesByModelType[h.ModelType]
	if !ok {
		return Config{}, errUnknownArchitecture(h.ModelType)
	}
	if arch == ArchGemma3 {
		h.gemmaDefaults()
	}
	c := Config{
		Architecture: arch,
		Sizes: Sizes{
			Layers:  h.Layers,
			Hidden:  h.Hidden,
			FFN:     h.FFN,
			Heads:   h.Heads,
			KVHeads: or(h.KVHeads, h.Heads),
			Vocab:   h.Vocab,
			Context: h.Context,
		},
		Traits: Traits{NormEps: float32(or(h.NormEps, 1e-6)), TieEmbeddings: or(h.Tie, arch == ArchGemma3)},
		AttentionShape: AttentionShape{
			AttnSoftcap:  float32(or(h.AttnSoftcap, 0)),
			FinalSoftcap: float32(or(h.FinalSoftcap, 0)),
		},
		Marks: Marks{BOS: or(h.BOS, -1), EOS: h.EOS},
	}
	if arch == ArchGemma3 {
		c.NormOffset = 1
	}
	if c.HeadDim = or(h.HeadDim, 0); c.HeadDim == 0 {
		if h.Heads < 1 || h.Hidden%h.Heads != 0 {
			return Config{},
				fmt.Errorf("hidden_size %d is not a multiple of num_attention_heads %d, and head_dim is not given",
					h.Hidden, h.Heads)
		}
		c.HeadDim = h.Hidden / h.Heads
	}
	h.setExperts(&c)
	if err := c.validateSizes(); err != nil {
		return Config{}, err
	}
	if err := errors.Join(h.refuseUnsupported(arch), h.setScale(&c), h.setRope(&c), h.setSliding(&c),
		h.setDenseLayers(&c)); err != nil {
		return Config{}, err
	}
	c.finish()
	return c, nil
}

func or[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// gemmaDefaults fills in what published Gemma configs leave out.
func (h *hfConfig) gemmaDefaults() {
	for _, d := range []struct {
		value    *int
		fallback int
	}{{&h.Vocab, 262208}, {&h.Heads, 8}, {&h.Context, 131072}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if h.KVHeads == nil {
		h.KVHeads = new(4)
	}
	if h.HeadDim == nil {
		h.HeadDim = new(256)
	}
	if h.HiddenActivation == "" {
		h.HiddenActivation = "gelu_pytorch_tanh"
	}
}

func (h *hfConfig) refuseUnsupported(arch string) error {
	if h.Bidirectional {
		return errors.New("use_bidirectional_attention is true, which is not supported")
	}
	if or(h.PartialRotary, 1) != 1 {
		return fmt.Errorf("partial_rotary_factor is %g: only 1 is supported", *h.PartialRotary)
	}
	act, want := h.HiddenAct, []string{"silu", "swish", ""}
	if arch == ArchGemma3 {
		act, want = h.HiddenActivation, []string{"gelu_pytorch_tanh"}
	}
	if !slices.Contains(want, act) {
		return fmt.Errorf("activation %q is not supported for %s: want %s", act, arch, want[0])
	}
	return nil
}

func (h *hfConfig) setScale(c *Config) error {
	if c.Architecture != ArchGemma3 {
		return nil
	}
	scalar := or(h.QueryScalar, 256)
	if !(scalar > 0) {
		return fmt.Errorf("query_pre_attn_scalar is %g: want a positive number", scalar)
	}
	c.AttnScale = float32(1 / math.Sqrt(scalar))
	return nil
}

func (h *hfConfig) setExperts(c *Config) {
	if c.Architecture != ArchQwen3MoE {
		return
	}
	c.Experts = or(h.Experts, or(h.LocalExperts, 128))
	c.ExpertsPerToken = or(h.ExpertsPerToken, 8)
	c.ExpertFFN = or(h.ExpertFFN, 768)
	c.NormTopK = h.NormTopK
}

// setDenseLayers lists the layers without experts: those named, and those
// that the step between sparse layers leaves out.
func (h *hfConfig) setDenseLayers(c *Config) error {
	if c.Experts == 0 {
		return nil
	}
	step := or(h.SparseStep, 1)
	if step < 1 {
		return fmt.Errorf("decoder_sparse_step is %d: want 1 or more", step)
	}
	for _, l := range h.DenseLayers {
		if l < 0 || l >= c.Layers {
			return fmt.Errorf("mlp_only_layers names layer %d: there are %d layers", l, c.Layers)
		}
	}
	for l := range c.Layers {
		if (l+1)%step != 0 || slices.Contains(h.DenseLayers, l) {
			c.DenseLayers = append(c.DenseLayers, l)
		}
	}
	return nil
}

// setSliding decides which layers see only a window.
func (h *hfConfig) setSliding(c *Config) error {
	c.Sliding = make([]bool, c.Layers)
	window := or(h.SlidingWindow, 0)
	switch c.Architecture {
	case ArchLlama:
		return nil
	case ArchMistral:
		for i := range c.Sliding {
			c.Sliding[i] = window > 0
		}
	case ArchQwen2, ArchQwen3:
		if !h.UseSlidingWindow {
			window = 0
		}
		for i := range c.Sliding {
			c.Sliding[i] = window > 0 && i >= or(h.MaxWindowLayers, 28)
		}
	case ArchQwen3MoE:
		if !h.UseSlidingWindow {
			window = 0
		}
		for i := range c.Sliding {
			c.Sliding[i] = window > 0
		}
	case ArchGemma3:
		window = or(h.SlidingWindow, 4096)
		period := or(h.SlidingPattern, or(h.OldSlidingPattern, 6))
		if period < 1 {
			return fmt.Errorf("sliding_window_pattern is %d: want 1 or more", period)
		}
		c.Sliding = slidingEvery(c.Layers, period)
	}
	if h.LayerTypes != nil && c.Architecture != ArchMistral {
		if err := h.applyLayerTypes(c); err != nil {
			return err
		}
	}
	if slices.Contains(c.Sliding, true) {
		c.SlidingWindow = window
	}
	return nil
}

func (h *hfConfig) applyLayerTypes(c *Config) error {
	if len(h.LayerTypes) != c.Layers {
		return fmt.Errorf("layer_types has %d entries for %d layers", len(h.LayerTypes), c.Layers)
	}
	for i, kind := range h.LayerTypes {
		switch kind {
		case "sliding_attention":
			c.Sliding[i] = true
		case "full_attention":
			c.Sliding[i] = false
		default:
			return fmt.Errorf(
				"layer_types[%d] is %q, which is not supported: want full_attention or sliding_attention", i, kind)
		}
	}
	return nil
}
