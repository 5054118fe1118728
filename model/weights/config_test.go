package weights

import (
	"math"
	"slices"
	"strings"
	"testing"
)

const llama2Config = `{
  "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true, "vocab_size": 32000}`

const llama31Config = `{
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009],
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256}`

const mistralConfig = `{
  "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000}`

const qwen25Config = `{
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu",
  "hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2",
  "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 131072, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 152064}`

const qwen3Config = `{
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "use_sliding_window": false, "vocab_size": 151936}`

const qwen3MoEConfig = `{
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "bos_token_id": 151643, "decoder_sparse_step": 1,
  "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144,
  "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [], "model_type": "qwen3_moe",
  "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8,
  "num_hidden_layers": 48, "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000.0, "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936}`

const gemma1BConfig = `{
  "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
  "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
  "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26,
  "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144}`

const gemma4BConfig = `{
  "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999, "eoi_token_index": 256000, "eos_token_id": [1, 106],
  "image_token_index": 262144, "mm_tokens_per_image": 256, "model_type": "gemma3",
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
  "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model", "num_hidden_layers": 27}}`

// gemmaNewConfig is how transformers 5 writes a Gemma: rotations by kind of
// layer, and the kinds of all layers.
const gemmaNewConfig = `{
  "architectures": ["Gemma3ForCausalLM"], "bos_token_id": 2, "dtype": "bfloat16", "eos_token_id": 1, "head_dim": 64,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 256, "intermediate_size": 512,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "max_position_embeddings": 2048, "model_type": "gemma3_text",
  "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "query_pre_attn_scalar": 64, "rms_norm_eps": 1e-06,
  "rope_parameters": {"full_attention": {"factor": 8.0, "rope_theta": 1000000.0, "rope_type": "linear"}, "sliding_attention": {"rope_theta": 20000.0, "rope_type": "default"}},
  "sliding_window": 128, "vocab_size": 1024}`

func mustConfig(t *testing.T, text, generation string) Config {
	t.Helper()
	var g []byte
	if generation != "" {
		g = []byte(generation)
	}
	c, err := parseHFConfig([]byte(text), g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func count(list []bool) int {
	n := 0
	for _, v := range list {
		if v {
			n++
		}
	}
	return n
}

func TestPublishedConfigs(t *testing.T) {
	for _, want := range []struct {
		name, text               string
		arch                     string
		layers, heads, kv, dim   int
		vocab, context           int
		window, slidingLayers    int
		tie                      bool
		theta, local             float64
		ropeType                 string
		scale, embed, normOffset float64
		eos                      []int
	}{
		{"Llama-2-7B", llama2Config, ArchLlama, 32, 32, 32, 128, 32000, 4096, 0, 0, false, 1e4, 1e4, RopeDefault,
			1 / math.Sqrt(128), 1, 0, []int{2}},
		{"Llama-3.1-8B", llama31Config, ArchLlama, 32, 32, 8, 128, 128256, 131072, 0, 0, false, 5e5, 5e5, RopeLlama3,
			1 / math.Sqrt(128), 1, 0, []int{128001, 128008, 128009}},
		{"Mistral-7B-v0.1", mistralConfig, ArchMistral, 32, 32, 8, 128, 32000, 32768, 4096, 32, false, 1e4, 1e4,
			RopeDefault, 1 / math.Sqrt(128), 1, 0, []int{2}},
		{"Qwen2.5-7B", qwen25Config, ArchQwen2, 28, 28, 4, 128, 152064, 32768, 0, 0, false, 1e6, 1e6, RopeDefault,
			1 / math.Sqrt(128), 1, 0, []int{151645}},
		{"Qwen3-0.6B", qwen3Config, ArchQwen3, 28, 16, 8, 128, 151936, 40960, 0, 0, true, 1e6, 1e6, RopeDefault,
			1 / math.Sqrt(128), 1, 0, []int{151645}},
		{"Qwen3-30B-A3B", qwen3MoEConfig, ArchQwen3MoE, 48, 32, 4, 128, 151936, 40960, 0, 0, false, 1e6, 1e6,
			RopeDefault, 1 / math.Sqrt(128), 1, 0, []int{151645}},
		{"gemma-3-1b", gemma1BConfig, ArchGemma3, 26, 4, 1, 256, 262144, 32768, 512, 22, true, 1e6, 1e4, RopeDefault,
			1.0 / 16, math.Sqrt(1152), 1, []int{1, 106}},
		{"gemma-3-4b", gemma4BConfig, ArchGemma3, 34, 8, 4, 256, 262208, 131072, 1024, 29, true, 1e6, 1e4, RopeLinear,
			1.0 / 16, math.Sqrt(2560), 1, []int{1, 106}},
		{"gemma new style", gemmaNewConfig, ArchGemma3, 3, 4, 2, 64, 1024, 2048, 128, 2, true, 1e6, 2e4, RopeLinear,
			1.0 / 8, 16, 1, []int{1}},
	} {
		t.Run(want.name, func(t *testing.T) {
			c := mustConfig(t, want.text, "")
			if c.Architecture != want.arch || c.Layers != want.layers || c.Heads != want.heads ||
				c.KVHeads != want.kv || c.HeadDim != want.dim || c.Vocab != want.vocab || c.Context != want.context {
				t.Errorf("sizes: %+v", c)
			}
			if c.SlidingWindow != want.window || count(c.Sliding) != want.slidingLayers || len(c.Sliding) != c.Layers {
				t.Errorf("window %d, sliding %v", c.SlidingWindow, c.Sliding)
			}
			if c.Rope.Theta != want.theta || c.RopeLocal.Theta != want.local || c.Rope.Type != want.ropeType ||
				c.Rope.Interleaved {
				t.Errorf("rope %+v, local %+v", c.Rope, c.RopeLocal)
			}
			if c.TieEmbeddings != want.tie || c.AttnScale != float32(want.scale) || c.EmbedScale != float32(
				want.embed) || c.NormOffset != float32(want.normOffset) || !slices.Equal(c.EOS, want.eos) {
				t.Errorf("tie %t, scale %g, embed %g, offset %g, eos %v", c.TieEmbeddings, c.AttnScale, c.EmbedScale,
					c.NormOffset, c.EOS)
			}
		})
	}
}

func TestConfigDetails(t *testing.T) {
	gemma := mustConfig(t, gemma1BConfig, "")
	if gemma.Sliding[5] || !gemma.Sliding[4] || !gemma.Sliding[6] || gemma.Activation != ActivationGELUTanh ||
		!gemma.QKNorm || !gemma.PostNorms {
		t.Errorf("gemma: %+v", gemma)
	}
	moe := mustConfig(t, strings.Replace(qwen3MoEConfig, `"mlp_only_layers": []`, `"mlp_only_layers": [3]`, 1), "")
	if moe.Experts != 128 || moe.ExpertsPerToken != 8 || moe.ExpertFFN != 768 || !moe.NormTopK || moe.IsSparse(3) ||
		!moe.IsSparse(4) {
		t.Errorf("experts: %+v", moe)
	}
	alternate := mustConfig(t,
		strings.Replace(qwen3MoEConfig, `"decoder_sparse_step": 1`, `"decoder_sparse_step": 2`, 1), "")
	if alternate.IsSparse(0) || !alternate.IsSparse(1) || len(alternate.DenseLayers) != 24 {
		t.Errorf("dense layers %v", alternate.DenseLayers)
	}
	windowed := mustConfig(t, strings.NewReplacer(`"use_sliding_window": false`, `"use_sliding_window": true`,
		`"max_window_layers": 28`, `"max_window_layers": 20`).Replace(qwen25Config), "")
	if windowed.SlidingWindow != 131072 || windowed.Sliding[19] || !windowed.Sliding[20] {
		t.Errorf("window %d, sliding %v", windowed.SlidingWindow, windowed.Sliding)
	}
	generation := mustConfig(t, qwen25Config, `{"bos_token_id": 151643, "eos_token_id": [151645, 151643]}`)
	if !slices.Equal(generation.EOS, []int{151645, 151643}) {
		t.Errorf("eos %v", generation.EOS)
	}
}

func TestRopeStyles(t *testing.T) {
	with := func(old string) string { return strings.Replace(qwen3Config, `"rope_scaling": null`, old, 1) }
	yarnFactor := 0.1*math.Log(4) + 1
	for _, c := range []struct {
		name, text string
		want       Rope
		context    int
	}{
		{"yarn, old key",
			with(`"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}`),
			Rope{Theta: 1e6, Type: RopeYarn, Factor: 4, OriginalContext: 32768, BetaFast: 32, BetaSlow: 1,
				AttentionFactor: yarnFactor}, 131072},
		{"yarn, all keys",
			with(
				`"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5, "truncate": false}`),
			Rope{Theta: 1e6, Type: RopeYarn, Factor: 4, OriginalContext: 32768, BetaFast: 16, BetaSlow: 2,
				AttentionFactor: 1.5, Untruncated: true}, 131072},
		{"yarn, mscale",
			with(
				`"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "mscale": 1.0, "mscale_all_dim": 1.0}`),
			Rope{Theta: 1e6, Type: RopeYarn, Factor: 4, OriginalContext: 32768, BetaFast: 32, BetaSlow: 1,
				AttentionFactor: 1}, 131072},
		{"linear", with(`"rope_scaling": {"type": "linear", "factor": 2.0}`),
			Rope{Theta: 1e6, Type: RopeLinear, Factor: 2, AttentionFactor: 1}, 40960},
		{"dynamic", with(`"rope_scaling": {"type": "dynamic", "factor": 2.0}`), plainRope(1e6), 40960},
		{"new style", with(`"rope_parameters": {"rope_theta": 250000.0, "rope_type": "default"}`), plainRope(250000),
			40960},
	} {
		got := mustConfig(t, c.text, "")
		requireEqual(t, c.name,
			Config{Sizes: Sizes{Context: got.Context}, AttentionShape: AttentionShape{Rope: got.Rope}},
			Config{Sizes: Sizes{Context: c.context}, AttentionShape: AttentionShape{Rope: c.want}})
	}
}

func TestConfigRefused(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(llama31Config) }
	for _, c := range []struct{ name, text, want string }{
		{"no json", "{", "unexpected end"},
		{"unknown architecture", edit(`"model_type": "llama"`, `"model_type": "gemma2"`),
			`"gemma2" is not supported: supported are llama, mistral`},
		{"no architecture", edit(`"model_type": "llama",`, ""), "is not supported"},
		{"no layers", edit(`"num_hidden_layers": 32`, `"num_hidden_layers": 0`), "layers is 0"},
		{"absurd layers", edit(`"num_hidden_layers": 32`, `"num_hidden_layers": 1000000000000`),
			"layers is 1000000000000"},
		{"not an integer", edit(`"num_hidden_layers": 32`, `"num_hidden_layers": 1e40`), "cannot unmarshal"},
		{"negative hidden size", edit(`"hidden_size": 4096`, `"hidden_size": -4096`), "hidden size is -4096"},
		{"no heads", edit(`"num_attention_heads": 32`, `"num_attention_heads": 0`), "num_attention_heads 0"},
		{"heads do not divide", edit(`"num_attention_heads": 32`, `"num_attention_heads": 33`), "not a multiple"},
		{"kv heads do not divide", edit(`"num_key_value_heads": 8`, `"num_key_value_heads": 7`),
			"cannot share 7 key/value heads"},
		{"no kv heads", edit(`"num_key_value_heads": 8`, `"num_key_value_heads": 0`), "key/value heads is 0"},
		{"odd head", edit(`"hidden_size": 4096`, `"hidden_size": 4096, "head_dim": 127`), "odd"},
		{"absurd vocabulary", edit(`"vocab_size": 128256`, `"vocab_size": 1000000000`),
			"vocabulary size is 1000000000"},
		{"eos outside", edit(`128009`, `928009`), "eos_token_id is 928009"},
		{"bos outside", edit(`"bos_token_id": 128000`, `"bos_token_id": 928000`), "bos_token_id is 928000"},
		{"unknown rope", edit(`"rope_type": "llama3"`, `"rope_type": "longrope"`), `"longrope" is not supported`},
		{"rope factor 0", edit(`"factor": 8.0`, `"factor": 0`), "factor is 0"},
		{"no rope factor", edit(`"factor": 8.0,`, ``), "has no factor"},
		{"rope factors swapped", edit(`"low_freq_factor": 1.0`, `"low_freq_factor": 9.0`),
			"low_freq_factor < high_freq_factor"},
		{"theta 0", edit(`"rope_theta": 500000.0`, `"rope_theta": 0`), "theta is 0"},
		{"bidirectional", strings.Replace(gemma1BConfig, `"vocab_size"`,
			`"use_bidirectional_attention": true, "vocab_size"`, 1), "use_bidirectional_attention"},
		{"activation", edit(`"hidden_act": "silu"`, `"hidden_act": "relu2"`), `activation "relu2"`},
		{"quantized", edit(`"vocab_size"`, `"quantization_config": {"quant_method": "gptq"}, "vocab_size"`),
			"quantization_config"},
		{"partial rotation", edit(`"vocab_size"`, `"partial_rotary_factor": 0.5, "vocab_size"`),
			"partial_rotary_factor is 0.5"},
		{"layer types cut", strings.Replace(gemmaNewConfig, `"full_attention", "sliding_attention"],`,
			`"full_attention"],`, 1), "2 entries for 3 layers"},
		{"unknown layer type", strings.Replace(gemmaNewConfig, `["sliding_attention"`, `["linear_attention"`, 1),
			`"linear_attention", which is not supported`},
		{"too many experts per token", strings.Replace(qwen3MoEConfig, `"num_experts_per_tok": 8`,
			`"num_experts_per_tok": 129`, 1), "experts per token is 129"},
		{"dense layer outside", strings.Replace(qwen3MoEConfig, `"mlp_only_layers": []`, `"mlp_only_layers": [48]`, 1),
			"names layer 48"},
		{"other vision model", `{"model_type": "llava", "text_config": ` + llama2Config + `}`,
			`"llava" is not supported`},
	} {
		_, err := parseHFConfig([]byte(c.text), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCanonicalNames(t *testing.T) {
	for _, c := range []struct{ arch, in, want string }{
		{ArchLlama, "model.embed_tokens.weight", "token_embd.weight"},
		{ArchLlama, "lm_head.weight", "output.weight"},
		{ArchLlama, "model.norm.weight", "output_norm.weight"},
		{ArchLlama, "model.layers.12.self_attn.q_proj.weight", "blk.12.attn_q.weight"},
		{ArchQwen2, "model.layers.0.self_attn.k_proj.bias", "blk.0.attn_k.bias"},
		{ArchLlama, "model.layers.3.post_attention_layernorm.weight", "blk.3.ffn_norm.weight"},
		{ArchGemma3, "model.layers.3.post_attention_layernorm.weight", "blk.3.post_attention_norm.weight"},
		{ArchGemma3, "model.layers.3.pre_feedforward_layernorm.weight", "blk.3.ffn_norm.weight"},
		{ArchGemma3, "language_model.model.layers.3.post_feedforward_layernorm.weight", "blk.3.post_ffw_norm.weight"},
		{ArchGemma3, "model.language_model.layers.3.self_attn.q_norm.weight", "blk.3.attn_q_norm.weight"},
		{ArchGemma3, "language_model.lm_head.weight", "output.weight"},
		{ArchGemma3, "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
			"vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight"},
		{ArchQwen3MoE, "model.layers.1.mlp.gate.weight", "blk.1.ffn_gate_inp.weight"},
		{ArchQwen3MoE, "model.layers.1.mlp.experts.7.down_proj.weight", "blk.1.ffn_down.7.weight"},
		{ArchQwen3MoE, "model.layers.1.mlp.experts.gate_up_proj", "blk.1.ffn_gate_up_exps.weight"},
		{ArchQwen3MoE, "model.layers.1.mlp.experts.down_proj", "blk.1.ffn_down_exps.weight"},
		{ArchLlama, "model.layers.01.self_attn.q_proj.weight", "model.layers.01.self_attn.q_proj.weight"},
		{ArchLlama, "model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"},
	} {
		if got := canonicalName(c.in, c.arch); got != c.want {
			t.Errorf("%s (%s) became %s, want %s", c.in, c.arch, got, c.want)
		}
	}
}
