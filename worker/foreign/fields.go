package foreign

import (
	"maps"
	"slices"
	"strings"
)

// neutralValues are values with which any field asks for nothing.
var neutralValues = []string{"null", "false", "0", "0.0", "-1", "[]", "{}", `""`}

// answerFields name the fields of vLLM, SGLang, llama.cpp and Ollama that change an answer and that Parley does not
// have, each with further values that ask for nothing, between spaces. To ignore one would be a wrong answer, so a
// request that uses one is refused by name. A field whose value is true unless a client says otherwise asks by being
// false.
var answerFields = map[string]string{
	// vLLM
	"min_tokens": "", "include_stop_str_in_output": "", "prompt_logprobs": "", "bad_words": "",
	"allowed_token_ids": "", "return_token_ids": "", "truncate_prompt_tokens": "", "use_beam_search": "",
	"length_penalty": "1.0", "early_stopping": "", "skip_special_tokens": "true", "return_tokens_as_token_ids": "",
	"logits_processors": "", "chat_template": "", "documents": "", "kv_transfer_params": "",
	"ec_transfer_params": "", "vllm_xargs": "", "thinking_token_budget": "", "logprob_token_ids": "",
	"prompt_embeds": "", "repetition_detection": "", "return_token_offsets": "", "return_prompt_text": "",
	"return_assistant_tokens_mask": "", "include_reasoning": "true", "media_io_kwargs": "", "mm_processor_kwargs": "",
	// SGLang
	"ebnf": "", "min_new_tokens": "", "stop_regex": "", "no_stop_trim": "", "custom_logit_processor": "",
	"custom_params": "", "return_hidden_states": "", "return_routed_experts": "", "return_meta_info": "",
	"return_prompt_token_ids": "", "return_cached_tokens_details": "", "return_spec_tokens_details": "",
	"return_sampling_mask": "", "lora_path": "", "session_params": "", "input_ids": "", "separate_reasoning": "true",
	"stream_reasoning": "true", "task": "", "images_config": "", "video_config": "", "use_audio_in_video": "",
	"max_dynamic_patch": "", "min_dynamic_patch": "", "bootstrap_host": "", "bootstrap_port": "",
	"bootstrap_room": "",
	// llama.cpp
	"grammar": "", "grammar_triggers": "", "n_predict": "", "n_cmpl": "1", "typical_p": "1.0", "top_n_sigma": "-1.0",
	"mirostat": "", "dynatemp_range": "", "xtc_probability": "", "dry_multiplier": "", "samplers": "", "n_keep": "",
	"n_discard": "", "min_keep": "", "t_max_predict_ms": "", "t_max_prompt_ms": "", "n_indent": "",
	"repeat_penalty": "1.0", "n_probs": "", "post_sampling_probs": "", "adaptive_target": "-1.0", "lora": "",
	"response_fields": "", "return_tokens": "", "reasoning_format": `"auto" "deepseek"`,
	"reasoning_budget_tokens": "", "reasoning_budget_message": "", "thinking_budget_tokens": "",
	"reasoning_control": "", "parse_tool_calls": "true", "chat_format": "", "chat_parser": "", "generation_prompt": "",
	"grammar_lazy": "", "grammar_type": "", "preserved_tokens": "", "reasoning_budget_start_tag": "",
	"reasoning_budget_end_tag": "", "reasoning_budget_end_tags": "",
	// Ollama has it on its own routes alone, where it is honoured.
	"options": "",
}

// hintFields name the fields of these servers that change at most when, where or how fast an answer is computed, how
// it is cut into events, or that mean something only beside one of answerFields. They are accepted without effect.
var hintFields = []string{
	// vLLM
	"priority", "request_id", "session_id", "stream_interval", "truncation_side", "spaces_between_special_tokens",
	"routed_experts_prompt_start", "guided_decoding_backend",
	// SGLang
	"rid", "custom_labels", "routed_experts_start_len", "routed_dp_rank", "disagg_prefill_dp_rank",
	"data_parallel_rank",
	// llama.cpp
	"cache_prompt", "id_slot", "message_delimiters", "n_cache_reuse", "backend_sampling", "sse_ping_interval",
	"timings_per_token", "verbose", "adaptive_decay", "dynatemp_exponent", "mirostat_eta", "mirostat_tau",
	"xtc_threshold", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "repeat_last_n",
	"speculative.n_max", "speculative.n_min", "speculative.p_min", "speculative.type", "speculative.ngram_min_hits",
	"speculative.ngram_size_m", "speculative.ngram_size_n",
}

// FieldNames lists in order the fields that are refused where they ask for something.
func FieldNames() []string { return fieldNames }

// fieldNames is sorted once: every request is compared with it.
var fieldNames = slices.Sorted(maps.Keys(answerFields))

// HintNames lists the fields that are accepted without effect.
func HintNames() []string { return slices.Sorted(slices.Values(hintFields)) }

// FieldAsks reports whether a field with a value, as JSON, asks for something.
func FieldAsks(name, value string) bool {
	other, known := answerFields[name]
	if other == "true" {
		return value == "false"
	}
	return known && !slices.Contains(neutralValues, value) && !slices.ContainsFunc(strings.Fields(other),
		func(neutral string) bool { return value == neutral || value+".0" == neutral })
}
