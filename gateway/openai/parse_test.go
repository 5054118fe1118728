package openai

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"parley"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A refusal is a body with the exact complaint it earns. In it, CHAT stands for
// a valid model and message, and TOOLS for valid tools.
type refusal struct{ name, body, param, code, message string }

var refusals = []refusal{
	{"empty", "", "", "", "is empty"},
	{"blank", " \n", "", "", "is empty"},
	{"array", `[]`, "", "", "must be a JSON object, but it is an array"},
	{"string", `"hi"`, "", "", "but it is a string"},
	{"cut short", `{"messages":[`, "", "", "not valid JSON at byte 13"},
	{"trailing garbage", `{"messages":[]} x`, "", "", "invalid character 'x' after top-level value"},
	{"two documents", `{} {}`, "", "", "after top-level value"},
	{"not UTF-8", "{\"model\":\"\xff\"}", "", "", "not valid UTF-8"},
	{"byte order mark", "\ufeff{}", "", "", "not valid JSON"},
	{"deep", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), "", "", "nested more than 64"},
	{"deep and broken", strings.Repeat("[", 100000), "", "", "nested more than 64"},
	{"no messages", `{"model":"m"}`, "messages", "missing_required_parameter",
		"Missing required parameter: 'messages'."},
	{"null messages", `{"messages":null}`, "messages", "missing_required_parameter", "Missing"},
	{"messages string", `{"messages":"hi"}`, "messages", "invalid_type",
		"expected an array of objects, but got a string instead"},
	{"no message", `{"messages":[]}`, "messages", "empty_array", "minimum length 1"},
	{"message string", `{"messages":["hi"]}`, "messages[0]", "invalid_type", "expected an object"},
	{"no role", `{"messages":[{"content":"x"}]}`, "messages[0].role", "missing_required_parameter", "messages[0].role"},
	{"bad role", `{"messages":[{"role":"boss","content":"x"}]}`, "messages[0].role", "invalid_value",
		"'boss'. Supported values are: 'system'"},
	{"role number", `{"messages":[{"role":1,"content":"x"}]}`, "messages[0].role", "invalid_type", "got an integer"},
	{"no content", `{"messages":[{"role":"user"}]}`, "messages[0].content", "missing_required_parameter", "Missing"},
	{"null content", `{"messages":[{"role":"user","content":null}]}`, "messages[0].content",
		"missing_required_parameter", "Missing"},
	{"content number", `{"messages":[{"role":"user","content":1.5}]}`, "messages[0].content", "invalid_type",
		"got a decimal"},
	{"content object", `{"messages":[{"role":"user","content":{}}]}`, "messages[0].content", "invalid_type",
		"got an object"},
	{"image",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:"}}]}]}`,
		"messages[0].content[1]", "unsupported_content_type", "This model takes text only"},
	{"audio", `{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "messages[0].content[0]",
		"unsupported_content_type", "text only"},
	{"file", `{"messages":[{"role":"user","content":[{"type":"file"}]}]}`, "messages[0].content[0]",
		"unsupported_content_type", "text only"},
	{"unknown part", `{"messages":[{"role":"user","content":[{"type":"smell"}]}]}`, "messages[0].content[0]",
		"invalid_value", "'smell'"},
	{"part without type", `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, "messages[0].content[0].type",
		"missing_required_parameter", "type"},
	{"part without text", `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, "messages[0].content[0].text",
		"missing_required_parameter", "text"},
	{"part text number", `{"messages":[{"role":"user","content":[{"type":"text","text":4}]}]}`,
		"messages[0].content[0].text", "invalid_type", "a string"},
	{"function without name", `{"messages":[{"role":"function","content":"x"}]}`, "messages[0].name",
		"missing_required_parameter", "name"},
	{"tool call without function", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]}`,
		"messages[0].tool_calls[0].function", "missing_required_parameter", "function"},
	{"tool call arguments object",
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}]}`,
		"messages[0].tool_calls[0].function.arguments", "invalid_type", "a string"},
	{"tool calls object", `{"messages":[{"role":"assistant","tool_calls":{}}]}`, "messages[0].tool_calls",
		"invalid_type", "array"},
	{"model number", `{CHAT,"model":7}`, "model", "invalid_type", "expected a string, but got an integer"},
	{"temperature string", `{CHAT,"temperature":"hot"}`, "temperature", "invalid_type",
		"expected a decimal, but got a string"},
	{"temperature high", `{CHAT,"temperature":2.1}`, "temperature", "decimal_above_max_value",
		"Expected a value <= 2, but got 2.1 instead."},
	{"temperature low", `{CHAT,"temperature":-0.1}`, "temperature", "decimal_below_min_value", ">= 0"},
	{"temperature huge", `{CHAT,"temperature":1e999}`, "temperature", "decimal_above_max_value", "+Inf"},
	{"top_p", `{CHAT,"top_p":1.01}`, "top_p", "decimal_above_max_value", "<= 1"},
	{"presence_penalty", `{CHAT,"presence_penalty":-2.5}`, "presence_penalty", "decimal_below_min_value", ">= -2"},
	{"frequency_penalty", `{CHAT,"frequency_penalty":3}`, "frequency_penalty", "decimal_above_max_value", "<= 2"},
	{"top_k", `{CHAT,"top_k":-2}`, "top_k", "integer_below_min_value", ">= -1"},
	{"min_p", `{CHAT,"min_p":2}`, "min_p", "decimal_above_max_value", "<= 1"},
	{"repetition_penalty", `{CHAT,"repetition_penalty":0}`, "repetition_penalty", "decimal_below_min_value", ">= 0.01"},
	{"n zero", `{CHAT,"n":0}`, "n", "integer_below_min_value", ">= 1"},
	{"n many", `{CHAT,"n":129}`, "n", "integer_above_max_value", "<= 128"},
	{"n decimal", `{CHAT,"n":1.5}`, "n", "invalid_type", "expected an integer, but got a decimal"},
	{"n beyond 64 bits", `{CHAT,"n":99999999999999999999}`, "n", "invalid_value", "64 bits"},
	{"max_tokens zero", `{CHAT,"max_tokens":0}`, "max_tokens", "integer_below_min_value", ">= 1"},
	{"max_completion_tokens", `{CHAT,"max_completion_tokens":-1}`, "max_completion_tokens", "integer_below_min_value",
		">= 1"},
	{"max_tokens huge", `{CHAT,"max_tokens":3000000000}`, "max_tokens", "integer_above_max_value", "3000000000"},
	{"seed string", `{CHAT,"seed":"x"}`, "seed", "invalid_type", "an integer"},
	{"stop number", `{CHAT,"stop":1}`, "stop", "invalid_type", "a string or an array of strings"},
	{"stop empty", `{CHAT,"stop":""}`, "stop", "empty_string", "at least one character"},
	{"stop empty in list", `{CHAT,"stop":["a",""]}`, "stop[1]", "empty_string", "at least one character"},
	{"stop 65", `{CHAT,"stop":["a"` + strings.Repeat(`,"b"`, 64) + `]}`, "stop", "array_above_max_length",
		"maximum length 64"},
	{"stop long", `{CHAT,"stop":"` + strings.Repeat("x", 1025) + `"}`, "stop", "string_above_max_length",
		"1024 bytes, but got 1025"},
	{"stop_token_ids", `{CHAT,"stop_token_ids":[1,-1]}`, "stop_token_ids[1]", "integer_below_min_value", ">= 0"},
	{"ignore_eos", `{CHAT,"ignore_eos":1}`, "ignore_eos", "invalid_type", "a boolean"},
	{"attention_sink_tokens", `{CHAT,"attention_sink_tokens":-1}`, "attention_sink_tokens", "integer_below_min_value",
		">= 0"},
	{"logit_bias list", `{CHAT,"logit_bias":[]}`, "logit_bias", "invalid_type", "an object"},
	{"logit_bias name", `{CHAT,"logit_bias":{"the":1}}`, "logit_bias.the", "invalid_value", "token ids"},
	{"logit_bias negative", `{CHAT,"logit_bias":{"-4":1}}`, "logit_bias.-4", "invalid_value", "token ids"},
	{"logit_bias high", `{CHAT,"logit_bias":{"4":101}}`, "logit_bias.4", "decimal_above_max_value", "<= 100"},
	{"logprobs number", `{CHAT,"logprobs":3}`, "logprobs", "invalid_type", "a boolean"},
	{"top_logprobs alone", `{CHAT,"top_logprobs":2}`, "top_logprobs", "invalid_value", "'logprobs' must be true"},
	{"top_logprobs many", `{CHAT,"logprobs":true,"top_logprobs":21}`, "top_logprobs", "integer_above_max_value",
		"<= 20"},
	{"stream string", `{CHAT,"stream":"yes"}`, "stream", "invalid_type", "a boolean"},
	{"stream_options alone", `{CHAT,"stream_options":{"include_usage":true}}`, "stream_options", "invalid_value",
		"only allowed when 'stream' is true"},
	{"stream_options number", `{CHAT,"stream":true,"stream_options":1}`, "stream_options", "invalid_type", "an object"},
	{"include_usage", `{CHAT,"stream":true,"stream_options":{"include_usage":1}}`, "stream_options.include_usage",
		"invalid_type", "a boolean"},
	{"unknown format", `{CHAT,"response_format":{"type":"yaml"}}`, "response_format.type", "invalid_value", "'yaml'"},
	{"format without type", `{CHAT,"response_format":{}}`, "response_format.type", "missing_required_parameter",
		"type"},
	{"modalities", `{CHAT,"modalities":["text","audio"]}`, "modalities[1]", "unsupported_parameter", "text only"},
	{"audio output", `{CHAT,"audio":{"voice":"x"}}`, "audio", "unsupported_parameter", "text only"},
	{"reasoning_effort", `{CHAT,"reasoning_effort":"extreme"}`, "reasoning_effort", "invalid_value", "'extreme'"},
	{"chat_template_kwargs", `{CHAT,"chat_template_kwargs":[]}`, "chat_template_kwargs", "invalid_type", "an object"},
	{"kwargs large", `{CHAT,"chat_template_kwargs":{"a":"` + strings.Repeat("x", 65<<10) + `"}}`,
		"chat_template_kwargs", "invalid_value", "65536 bytes"},
	{"continue user", `{CHAT,"continue_final_message":true}`, "continue_final_message", "invalid_value", "'assistant'"},
	{"many members", `{"messages":[],` + strings.Repeat(`"a":1,`, 3) + manyMembers(1001) + `}`, "", "invalid_value",
		"1000 members"},
}

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k`)
		b.WriteString(strings.Repeat("x", i))
		b.WriteString(`":0`)
	}
	return b.String()
}

const validChat = `"model":"m","messages":[{"role":"user","content":"hi"}]`

func TestChatRefusals(t *testing.T) {
	for _, c := range slices.Concat(refusals, toolRefusals) {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseChat([]byte(strings.NewReplacer("CHAT", validChat, "TOOLS", validTools).Replace(c.body)))
			checkRefusal(t, err, c.param, c.code, c.message)
		})
	}
}

func TestCompletionRefusals(t *testing.T) {
	for _, c := range []struct{ name, body, param, code, message string }{
		{"no prompt", `{}`, "prompt", "missing_required_parameter", "Missing"},
		{"prompt object", `{"prompt":{}}`, "prompt", "invalid_type", "array of token ids"},
		{"no prompts", `{"prompt":[]}`, "prompt", "empty_array", "at least one prompt"},
		{"prompt bool", `{"prompt":[true]}`, "prompt[0]", "invalid_type", "a string or an array of token ids"},
		{"token among strings", `{"prompt":["a",1]}`, "prompt[1]", "invalid_type", "got an integer"},
		{"string among tokens", `{"prompt":[1,"a"]}`, "prompt[1]", "invalid_type", "got a string"},
		{"negative token", `{"prompt":[-1]}`, "prompt[0]", "integer_below_min_value", ">= 0"},
		{"no tokens", `{"prompt":[[]]}`, "prompt[0]", "empty_array", "at least one token"},
		{"nested too far", `{"prompt":[[[1]]]}`, "prompt[0][0]", "invalid_type", "an integer"},
		{"many prompts", `{"prompt":[` + strings.Repeat(`"a",`, 128) + `"a"]}`, "prompt", "array_above_max_length",
			"at most 128"},
		{"many choices", `{"prompt":["a","b"],"n":65}`, "n", "invalid_value", "130 choices"},
		{"max_tokens zero", `{"prompt":"a","max_tokens":0}`, "max_tokens", "integer_below_min_value", "'echo'"},
		{"logprobs", `{"prompt":"a","logprobs":6}`, "logprobs", "integer_above_max_value", "<= 5"},
		{"logprobs true", `{"prompt":"a","logprobs":true}`, "logprobs", "invalid_type", "an integer"},
		{"best_of less than n", `{"prompt":"a","n":3,"best_of":2}`, "best_of", "invalid_value",
			"best_of 2 is less than n 3"},
		{"best_of streamed", `{"prompt":"a","best_of":2,"stream":true}`, "best_of", "invalid_value", "streamed"},
		{"best_of many", `{"prompt":"a","best_of":21}`, "best_of", "integer_above_max_value", "<= 20"},
		{"suffix", `{"prompt":"a","suffix":1}`, "suffix", "invalid_type", "a string"},
		{"suffix and echo", `{"prompt":"a","suffix":"b","echo":true}`, "suffix", "invalid_value", "'echo'"},
		{"echo", `{"prompt":"a","echo":"x"}`, "echo", "invalid_type", "a boolean"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseCompletion([]byte(c.body))
			checkRefusal(t, err, c.param, c.code, c.message)
		})
	}
}

func checkRefusal(t *testing.T, err error, param, code, message string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	got := Describe(err, "req_1")
	if got.Status != 400 || got.Body.Error.Type != "invalid_request_error" {
		t.Errorf("status %d type %s, want 400 invalid_request_error", got.Status, got.Body.Error.Type)
	}
	if p := deref(got.Body.Error.Param); p != param {
		t.Errorf("param %q, want %q", p, param)
	}
	if c := deref(got.Body.Error.Code); c != code {
		t.Errorf("code %q, want %q", c, code)
	}
	if !strings.Contains(got.Body.Error.Message, message) {
		t.Errorf("message %q does not say %q", got.Body.Error.Message, message)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestChatAccepted(t *testing.T) {
	body := `{"model":"a/b:c","unknown":{"x":[1]},"temperature":null,"max_tokens":5,"max_completion_tokens":7,
	"messages":[{"role":"developer","content":"be \u00e9\ud83d\ude00 brief"},
	 {"role":"user","name":"ann","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
	 {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\":1,\"a\":[2.5]}"}}]},
	 {"role":"tool","tool_call_id":"c1","content":"42"}],
	"top_p":0,"n":2,"stop":["x","y"],"seed":-1,"logprobs":true,"top_logprobs":3,"logit_bias":{"5":-100,"7":1.5},
	"presence_penalty":1,"frequency_penalty":-1,"top_k":-1,"min_p":0.1,"repetition_penalty":1.1,"ignore_eos":true,"parley":{"finish_json":true},"attention_sink_tokens":4,"stop_token_ids":[9],
	"stream":true,"stream":false,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},
	"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false,"k":3,"f":1.0,"l":[null,{"x":"y"}]},
	"tools":[],"tool_choice":"none","response_format":{"type":"text"},"user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto"}`
	got, err := ParseChat([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := got.CheckVocab(10); err != nil {
		t.Fatal(err)
	}
	want := &ChatRequest{
		Generation: Generation{
			Model: "a/b:c", Choices: 2,
			Length: Length{MaxTokens: 7, MaxTokensParam: "max_completion_tokens", CutToFit: true},
			Seeded: true,
			Sampling: parley.Sampling{Temperature: 1, TopP: topPNothing, MinP: 0.1, RepetitionPenalty: 1.1,
				PresencePenalty: 1, FrequencyPenalty: -1, Seed: math.MaxUint64,
				LogitBias: map[parley.Token]float32{5: -100, 7: 1.5}},
			Stop:       parley.Stop{Strings: []string{"x", "y"}, Tokens: []parley.Token{9}, IgnoreEnd: true},
			Extensions: Extensions{Sinks: 4, FinishJSON: true},
			Caching:    Caching{Session: "user u"},
			Listing:    Listing{Logprobs: true, TopLogprobs: 3},
			Delivery:   Delivery{Stream: true, IncludeUsage: true, ServiceTier: "auto"},
		},
		Messages: []Message{
			{Role: "system", Content: "be é😀 brief", HasContent: true},
			{Role: "user", Name: "ann", Content: "one\ntwo", HasContent: true},
			{Role: "assistant", ToolCalls: []ToolCall{{ID: "c1", Name: "f", Arguments: `{"b":1,"a":[2.5]}`}}},
			{Role: "tool", ToolCallID: "c1", Content: "42", HasContent: true},
		},
		ToolChoice: ToolChoice{Mode: ToolsNone},
		OpenTurn:   true,
		TemplateArgs: map[string]any{"enable_thinking": false, "k": int64(3), "f": 1.0,
			"l": []any{nil, map[string]any{"x": "y"}}, "reasoning_effort": "low"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Generation{})); diff != "" {
		t.Error(diff)
	}
}

func TestChatDefaults(t *testing.T) {
	got, err := ParseChat([]byte(`{` + validChat + `}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Generation{Model: "m", Choices: 1, Sampling: parley.Sampling{Temperature: 1, TopP: 1}}
	if diff := cmp.Diff(want, got.Generation, cmpopts.IgnoreUnexported(Generation{})); diff != "" {
		t.Error(diff)
	}
}

func TestContinueFinal(t *testing.T) {
	got, err := ParseChat([]byte(`{"messages":[{"role":"assistant","content":"On"}],"continue_final_message":true}`))
	if err != nil || got.OpenTurn || !got.ContinueFinal {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCompletionAccepted(t *testing.T) {
	for _, c := range []struct {
		body string
		want []Prompt
	}{
		{`{"prompt":"a"}`, []Prompt{{Text: "a", Param: "prompt"}}},
		{`{"prompt":["a","b"]}`, []Prompt{{Text: "a", Param: "prompt[0]"}, {Text: "b", Param: "prompt[1]"}}},
		{`{"prompt":[ 1 , 2.0 ]}`, []Prompt{{Tokens: []parley.Token{1, 2}, IsTokens: true, Param: "prompt"}}},
		{`{"prompt":[[1],[2,3]]}`, []Prompt{
			{Tokens: []parley.Token{1}, IsTokens: true, Param: "prompt[0]"},
			{Tokens: []parley.Token{2, 3}, IsTokens: true, Param: "prompt[1]"}}},
	} {
		got, err := ParseCompletion([]byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		if diff := cmp.Diff(c.want, got.Prompts); diff != "" {
			t.Errorf("%s: %s", c.body, diff)
		}
		if got.MaxTokens != 16 || got.BestOf != 1 || got.MaxTokensParam != "" {
			t.Errorf("%s: defaults are %+v", c.body, got)
		}
	}
}

func TestCompletionZeroTokens(t *testing.T) {
	got, err := ParseCompletion(
		[]byte(`{"prompt":"a","max_tokens":0,"echo":true,"logprobs":0,"suffix":"","n":2,"best_of":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.MaxTokens != 0 || !got.Logprobs || got.TopLogprobs != 0 || got.Gap != nil || got.BestOf != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestCheckVocab(t *testing.T) {
	for _, c := range []struct{ body, param, message string }{
		{`{"prompt":[5,10]}`, "prompt", "token id 10 is outside the model's vocabulary of 10"},
		{`{"prompt":"a","logit_bias":{"3":1,"10":1}}`, "logit_bias.10", "token id 10"},
		{`{"prompt":"a","stop_token_ids":[3,12]}`, "stop_token_ids[1]", "token id 12"},
	} {
		r, err := ParseCompletion([]byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		checkRefusal(t, r.CheckVocab(10), c.param, "invalid_value", c.message)
	}
}

func FuzzChatRequest(f *testing.F) {
	for _, c := range slices.Concat(refusals, toolRefusals) {
		if len(c.body) < 4096 {
			f.Add([]byte(strings.NewReplacer("CHAT", validChat, "TOOLS", validTools).Replace(c.body)))
		}
	}
	f.Add(
		[]byte(
			`{"messages":[{"role":"assistant","content":"a","tool_calls":[{"function":{"name":"f","arguments":"[1,{}]"}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseChat(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if len(r.Messages) == 0 || r.Choices < 1 || r.Choices > ChoicesMax ||
			!(r.Sampling.Temperature >= 0 && r.Sampling.Temperature <= 2) {
			t.Errorf("accepted %+v", r)
		}
		if err := r.CheckVocab(100); err != nil {
			checkFuzzed(t, err)
		}
	})
}

func FuzzCompletionRequest(f *testing.F) {
	for _, body := range []string{`{"prompt":"a"}`, `{"prompt":[[1],[2,3]],"n":3,"best_of":4}`, `{"prompt":[1,"a"]}`,
		`{"prompt":["a"],"logprobs":5,"echo":true,"max_tokens":0}`, `{"prompt":[[`,
		`{"prompt":"a","suffix":"b","logit_bias":{"5":1}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseCompletion(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if n := len(r.Prompts) * r.BestOf; n < 1 || n > ChoicesMax || r.BestOf < r.Choices {
			t.Errorf("accepted %d choices: %+v", n, r)
		}
		if err := r.CheckVocab(100); err != nil {
			checkFuzzed(t, err)
		}
	})
}

func checkFuzzed(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*parley.Error](err); !ok {
		t.Fatalf("%T is no parley.Error", err)
	}
	if failure := Describe(err, "req_1"); failure.Status != 400 || failure.Body.Error.Message == "" {
		t.Errorf("%+v", failure)
	}
	if _, err := Encode(Describe(err, "req_1").Body); err != nil {
		t.Error(err)
	}
}
