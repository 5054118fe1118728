package foreign

import (
	"maps"
	"slices"
)

// neutralValues are values with which any field asks for nothing.
var neutralValues = []string{"null", "false", "0", "0.0", "-1", "[]", "{}", `""`}

// answerFields name the fields of vLLM, SGLang and llama.cpp that change an answer and that Parley does not have, each
// with one further value that asks for nothing, if there is one. To ignore one would be a wrong answer, so a request
// that uses one is refused by name.
var answerFields = map[string]string{
	// vLLM
	"min_tokens": "", "include_stop_str_in_output": "", "prompt_logprobs": "", "bad_words": "",
	"allowed_token_ids": "",
	"return_token_ids":  "", "truncate_prompt_tokens": "", "use_beam_search": "", "length_penalty": "1.0",
	"skip_special_tokens": "true", "return_tokens_as_token_ids": "",
	"logits_processors": "", "chat_template": "", "documents": "", "kv_transfer_params": "",
	"thinking_token_budget": "",
	// SGLang
	"ebnf": "", "min_new_tokens": "", "stop_regex": "", "no_stop_trim": "", "custom_logit_processor": "",
	"return_hidden_states": "", "lora_path": "", "session_params": "",
	// llama.cpp
	"grammar": "", "n_predict": "", "typical_p": "1.0", "top_n_sigma": "-1.0", "mirostat": "", "dynatemp_range": "",
	"xtc_probability": "", "dry_multiplier": "", "samplers": "", "n_keep": "", "t_max_predict_ms": "", "n_indent": "",
	"repeat_penalty": "1.0", "n_probs": "", "adaptive_target": "-1.0", "lora": "",
}

// FieldNames lists the fields in order.
func FieldNames() []string { return slices.Sorted(maps.Keys(answerFields)) }

// FieldAsks reports whether a field with a value, as JSON, asks for something.
func FieldAsks(name, value string) bool {
	other, known := answerFields[name]
	if other == "true" {
		return value == "false"
	}
	return known && !slices.Contains(neutralValues, value) && (other == "" || value != other && value+".0" != other)
}
