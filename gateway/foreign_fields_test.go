package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
	"parley/worker/foreign"
)

// foreignFields are all fields of the requests of other servers, as their sources have them.
var foreignFields = map[string]struct{ chat, completions string }{
	"vLLM": {
		`messages model frequency_penalty logit_bias logprobs top_logprobs max_tokens max_completion_tokens n
		presence_penalty response_format seed stop stream stream_options temperature top_p tools tool_choice
		reasoning_effort thinking_token_budget include_reasoning parallel_tool_calls user use_beam_search top_k min_p
		repetition_penalty length_penalty stop_token_ids include_stop_str_in_output ignore_eos min_tokens
		skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens truncation_side prompt_logprobs
		logprob_token_ids allowed_token_ids bad_words echo add_generation_prompt continue_final_message
		add_special_tokens documents chat_template chat_template_kwargs media_io_kwargs mm_processor_kwargs
		structured_outputs priority request_id session_id return_tokens_as_token_ids return_token_ids
		routed_experts_prompt_start return_token_offsets return_prompt_text return_assistant_tokens_mask cache_salt
		kv_transfer_params ec_transfer_params vllm_xargs repetition_detection stream_interval best_of early_stopping
		guided_json guided_regex guided_choice guided_grammar guided_decoding_backend logits_processors`,
		`model prompt echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream
		stream_options suffix temperature top_p user use_beam_search top_k min_p repetition_penalty length_penalty
		stop_token_ids include_stop_str_in_output ignore_eos min_tokens skip_special_tokens
		spaces_between_special_tokens truncate_prompt_tokens truncation_side allowed_token_ids prompt_logprobs
		logprob_token_ids bad_words prompt_embeds add_special_tokens response_format structured_outputs priority
		request_id session_id return_tokens_as_token_ids return_token_ids routed_experts_prompt_start
		return_token_offsets cache_salt kv_transfer_params ec_transfer_params vllm_xargs repetition_detection
		thinking_token_budget stream_interval best_of`,
	},
	"SGLang": {
		`messages model frequency_penalty logit_bias logprobs top_logprobs max_tokens max_completion_tokens n
		presence_penalty response_format seed stop stream stream_options temperature top_p user tools tool_choice
		parallel_tool_calls return_hidden_states return_routed_experts routed_experts_start_len
		return_cached_tokens_details return_spec_tokens_details return_prompt_token_ids return_token_ids
		return_meta_info return_sampling_mask reasoning_effort task top_k min_p min_tokens regex ebnf
		repetition_penalty stop_token_ids stop_regex no_stop_trim ignore_eos continue_final_message
		skip_special_tokens lora_path session_id session_params separate_reasoning stream_reasoning
		chat_template_kwargs max_dynamic_patch min_dynamic_patch use_audio_in_video images_config video_config
		custom_logit_processor custom_params input_ids rid extra_key cache_salt priority bootstrap_host bootstrap_port
		bootstrap_room routed_dp_rank disagg_prefill_dp_rank data_parallel_rank`,
		`model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n presence_penalty seed stop stream
		stream_options suffix temperature top_p user return_hidden_states return_routed_experts
		routed_experts_start_len return_cached_tokens_details return_spec_tokens_details return_token_ids top_k min_p
		min_tokens json_schema regex ebnf repetition_penalty stop_token_ids stop_regex no_stop_trim ignore_eos
		skip_special_tokens lora_path session_id session_params response_format custom_params custom_logit_processor
		images_config bootstrap_host bootstrap_port bootstrap_room routed_dp_rank disagg_prefill_dp_rank
		data_parallel_rank rid extra_key cache_salt priority custom_labels`,
	},
	"llama.cpp": {
		`add_generation_prompt chat_template_kwargs continue_final_message json_schema messages parallel_tool_calls
		reasoning_effort response_format tool_choice tools top_logprobs parse_tool_calls reasoning_budget_message
		reasoning_budget_tokens reasoning_control reasoning_format thinking_budget_tokens return_progress ` + llamaFields,
		`prompt ` + llamaFields,
	},
	"Ollama": {
		`model messages options`,
		`model prompt options`,
	},
}

const llamaFields = `adaptive_decay adaptive_target backend_sampling cache_prompt chat_format chat_parser
	generation_prompt grammar_lazy grammar_type preserved_tokens reasoning_budget_start_tag reasoning_budget_end_tag
	reasoning_budget_end_tags dry_allowed_length dry_base
	dry_multiplier dry_penalty_last_n dry_sequence_breakers dynatemp_exponent dynatemp_range echo frequency_penalty
	grammar grammar_triggers id_slot ignore_eos json_schema logit_bias logprobs lora max_tokens message_delimiters
	min_keep min_p mirostat mirostat_eta mirostat_tau n_cache_reuse n_cmpl n_discard n_indent n_keep n_predict n_probs
	post_sampling_probs presence_penalty repeat_last_n repeat_penalty response_fields return_tokens samplers seed
	speculative.n_max speculative.n_min speculative.ngram_min_hits speculative.ngram_size_m speculative.ngram_size_n
	speculative.p_min speculative.type sse_ping_interval stop stream stream_options t_max_predict_ms t_max_prompt_ms
	temperature timings_per_token top_k top_n_sigma top_p typical_p verbose xtc_probability xtc_threshold`

// TestNoForeignFieldIsForgotten finds each field of other servers among those that the parsers read, those that are
// refused by name, and those that are documented to have no effect.
func TestNoForeignFieldIsForgotten(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(testkit.Root(), "gateway", "apidoc", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &api); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for server, fields := range foreignFields {
		for body, list := range map[string]string{
			"openai.ChatBody":       fields.chat,
			"openai.CompletionBody": fields.completions,
		} {
			read := api.Components.Schemas[body].Properties
			if len(read) < 30 {
				t.Fatalf("%s has %d fields", body, len(read))
			}
			for name := range strings.FieldsSeq(list) {
				_, isRead := read[name]
				isHint := slices.Contains(foreign.HintNames(), name)
				if !isRead && !isHint && !slices.Contains(foreign.FieldNames(), name) {
					t.Errorf("%s: %s of %s is ignored in silence", body, name, server)
				}
				if isHint && !strings.Contains(string(docs), "`"+name+"`") {
					t.Errorf("docs/api.md does not say that %s has no effect", name)
				}
			}
		}
	}
}
