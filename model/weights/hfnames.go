package weights

import (
	"strconv"
	"strings"
)

// layerNames maps the names inside a Hugging Face decoder layer to canonical
// ones.
var layerNames = map[string]string{
	"input_layernorm":          "attn_norm",
	"self_attn.q_proj":         "attn_q",
	"self_attn.k_proj":         "attn_k",
	"self_attn.v_proj":         "attn_v",
	"self_attn.o_proj":         "attn_output",
	"self_attn.q_norm":         "attn_q_norm",
	"self_attn.k_norm":         "attn_k_norm",
	"post_attention_layernorm": "ffn_norm",
	"mlp.gate_proj":            "ffn_gate",
	"mlp.up_proj":              "ffn_up",
	"mlp.down_proj":            "ffn_down",
	"mlp.gate":                 "ffn_gate_inp",
}

// gemmaNames are the layer names that mean something else in Gemma, which has
// norms on both sides of attention and feed-forward.
var gemmaNames = map[string]string{
	"post_attention_layernorm":   "post_attention_norm",
	"pre_feedforward_layernorm":  "ffn_norm",
	"post_feedforward_layernorm": "post_ffw_norm",
}

// fusedExperts are the names of parameters that hold all experts of a layer;
// they have no ".weight" at the end.
var fusedExperts = map[string]string{
	"mlp.experts.gate_up_proj": "ffn_gate_up_exps.weight",
	"mlp.experts.gate_proj":    "ffn_gate_exps.weight",
	"mlp.experts.up_proj":      "ffn_up_exps.weight",
	"mlp.experts.down_proj":    "ffn_down_exps.weight",
}

// canonicalName returns the GGUF name of a tensor of a Hugging Face
// checkpoint. A tensor that is not part of the language model keeps its name.
func canonicalName(name, architecture string) string {
	inner := name
	for _, prefix := range []string{"model.language_model.", "language_model.model.", "language_model.", "model."} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			inner = rest
			break
		}
	}
	switch inner {
	case "embed_tokens.weight":
		return "token_embd.weight"
	case "norm.weight":
		return "output_norm.weight"
	case "lm_head.weight":
		return "output.weight"
	}
	rest, ok := strings.CutPrefix(inner, "layers.")
	if !ok {
		return name
	}
	number, rest, ok := strings.Cut(rest, ".")
	if !ok || !isIndex(number) {
		return name
	}
	if local := canonicalLayerName(rest, architecture); local != "" {
		return "blk." + number + "." + local
	}
	return name
}

func canonicalLayerName(name, architecture string) string {
	if fused, ok := fusedExperts[name]; ok {
		return fused
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return ""
	}
	module, param := name[:dot], name[dot:]
	if param != ".weight" && param != ".bias" {
		return ""
	}
	if rest, ok := strings.CutPrefix(module, "mlp.experts."); ok {
		number, proj, _ := strings.Cut(rest, ".")
		which, ok := strings.CutSuffix(proj, "_proj")
		if !ok || !isIndex(number) {
			return ""
		}
		return "ffn_" + which + "." + number + param
	}
	if architecture == ArchGemma3 {
		if local, ok := gemmaNames[module]; ok {
			return local + param
		}
	}
	if local, ok := layerNames[module]; ok {
		return local + param
	}
	return ""
}

// isIndex reports whether s is a number as layers are numbered: digits without
// a leading zero, so that two names cannot mean one layer.
func isIndex(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 0 && strconv.Itoa(n) == s
}
