package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// hfConfig is what a Hugging Face config.json says of a model's size. Models of
// any architecture can be planned, also of one that Parley does not run.
type hfConfig struct {
	TextConfig      *hfConfig `json:"text_config"`
	Layers          float64   `json:"num_hidden_layers"`
	Hidden          float64   `json:"hidden_size"`
	FFN             float64   `json:"intermediate_size"`
	Heads           float64   `json:"num_attention_heads"`
	KVHeads         float64   `json:"num_key_value_heads"`
	HeadDim         float64   `json:"head_dim"`
	Vocab           float64   `json:"vocab_size"`
	Tied            bool      `json:"tie_word_embeddings"`
	Experts         float64   `json:"num_experts"`
	LocalExperts    float64   `json:"num_local_experts"`
	RoutedExperts   float64   `json:"n_routed_experts"`
	SharedExperts   float64   `json:"n_shared_experts"`
	ExpertsPerToken float64   `json:"num_experts_per_tok"`
	ExpertFFN       float64   `json:"moe_intermediate_size"`
	DenseFirst      float64   `json:"first_k_dense_replace"`
	Window          float64   `json:"sliding_window"`
	UseWindow       *bool     `json:"use_sliding_window"`
	LayerTypes      []string  `json:"layer_types"`
	KVRank          float64   `json:"kv_lora_rank"`
	KVRope          float64   `json:"qk_rope_head_dim"`
}

// ReadConfig returns the shape that a config.json describes. The number of
// parameters is that of the matrices; norms and biases do not count.
func ReadConfig(text []byte) (Cells, error) {
	var c hfConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("not a config.json: %w", err)
	}
	if c.TextConfig != nil && c.Layers == 0 {
		c = *c.TextConfig
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	total, active := c.parameters()
	shape := Cells{
		"params": total, "active_params": active, "layers": c.Layers, "kv_heads": c.KVHeads, "head_dim": c.HeadDim,
	}
	if c.KVRank > 0 { // latent attention keeps one vector in place of a key and a value
		shape["kv_heads"], shape["head_dim"] = 1, (c.KVRank+c.KVRope)/2
	}
	if sliding := c.slidingLayers(); sliding > 0 {
		shape["window_layers"], shape["window"] = sliding, c.Window
	}
	for name, value := range shape {
		if !(value > 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("config.json describes a model whose %s is %g", name, value)
		}
	}
	return shape, nil
}

// complete fills in what follows from the rest, and reports what is missing.
func (c *hfConfig) complete() error {
	for name, value := range map[string]float64{
		"num_hidden_layers": c.Layers, "hidden_size": c.Hidden, "num_attention_heads": c.Heads, "vocab_size": c.Vocab,
	} {
		if !(value > 0) {
			return fmt.Errorf("config.json has no %s", name)
		}
	}
	c.Experts = max(c.Experts, c.LocalExperts, c.RoutedExperts)
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.ExpertFFN == 0 {
		c.ExpertFFN = c.FFN
	}
	if c.FFN == 0 && c.ExpertFFN == 0 {
		return errors.New("config.json has no intermediate_size")
	}
	return nil
}

// parameters counts all weights, and the weights that one token passes through.
func (c *hfConfig) parameters() (total, active float64) {
	attention := float64(2*c.Hidden*c.Heads*c.HeadDim) + float64(2*c.Hidden*c.KVHeads*c.HeadDim)
	embedding := float64(c.Vocab * c.Hidden)
	if !c.Tied {
		embedding += embedding
	}
	total = embedding + float64(c.Layers*attention)
	if c.Experts == 0 {
		total += float64(c.Layers * 3 * c.Hidden * c.FFN)
		return total, total
	}
	expert := 3 * c.Hidden * c.ExpertFFN
	sparse := c.Layers - c.DenseFirst
	total += float64(c.DenseFirst*3*c.Hidden*c.FFN) +
		float64(sparse*(float64(c.SharedExperts*expert)+float64(c.Hidden*c.Experts)))
	return total + float64(sparse*c.Experts*expert), total + float64(sparse*c.ExpertsPerToken*expert)
}

// slidingLayers counts the layers that keep a window of tokens.
func (c *hfConfig) slidingLayers() float64 {
	if c.Window == 0 || c.UseWindow != nil && !*c.UseWindow {
		return 0
	}
	if len(c.LayerTypes) == 0 {
		return c.Layers
	}
	sliding := 0.0
	for _, kind := range c.LayerTypes {
		if kind == "sliding_attention" {
			sliding++
		}
	}
	return sliding
}
