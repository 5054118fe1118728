package openai

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResponseRefusals(t *testing.T) {
	long := strings.Repeat("k", 65)
	for _, c := range []struct{ body, param, code, message string }{
		{`{}`, "input", "missing_required_parameter", "Missing required parameter: 'input'."},
		{`{"input":[]}`, "input", "empty_array", "empty array"},
		{`{"input":7}`, "input", "invalid_type", "expected a string or an array of items, but got an integer"},
		{`{"input":[7]}`, "input[0]", "invalid_type", "expected an object"},
		{`{"input":[{"content":"x"}]}`, "input[0].role", "missing_required_parameter", ""},
		{`{"input":[{"role":"bot","content":"x"}]}`, "input[0].role", "invalid_value",
			"'bot'. Supported values are: 'user'"},
		{`{"input":[{"role":"user"}]}`, "input[0].content", "missing_required_parameter", ""},
		{`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]}`, "input[0].content[0]",
			"unsupported_content_type", "takes text only"},
		{`{"input":[{"type":"computer_call"}]}`, "input[0].type", "invalid_value", "'computer_call'"},
		{`{"input":[{"type":"function_call","name":"f","arguments":"{}"}]}`, "input[0].call_id",
			"missing_required_parameter", ""},
		{`{"input":[{"type":"function_call","call_id":"c","name":"no name","arguments":"{}"}]}`, "input[0].name",
			"invalid_value", ""},
		{`{"input":[{"type":"function_call_output","call_id":"` + long + `","output":"x"}]}`, "input[0].call_id",
			"invalid_value", "a text of 65 bytes"},
		{`{"input":[{"type":"function_call_output","call_id":"c"}]}`, "input[0].output", "missing_required_parameter",
			""},
		{`{"input":"x","previous_response_id":"a","conversation":"b"}`, "conversation",
			"mutually_exclusive_parameters", ""},
		{`{"input":"x","conversation":{}}`, "conversation.id", "missing_required_parameter", ""},
		{`{"input":"x","background":true,"store":false}`, "background", "invalid_value", "must be stored"},
		{`{"input":"x","max_output_tokens":0}`, "max_output_tokens", "integer_below_min_value", ""},
		{`{"input":"x","truncation":"some"}`, "truncation", "invalid_value", "'auto', 'disabled'"},
		{`{"input":"x","temperature":3}`, "temperature", "decimal_above_max_value", ""},
		{`{"input":"x","tools":[{"type":"function","function":{"name":"f"}}]}`, "tools[0].name",
			"missing_required_parameter", ""},
		{`{"input":"x","tools":[{"type":"file_search"}]}`, "tools[0].type", "invalid_value", "'file_search'"},
		{`{"input":"x","tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}`, "tools[1]",
			"invalid_value", "two functions"},
		{`{"input":"x","tool_choice":"required"}`, "tool_choice", "invalid_value",
			"only allowed when 'tools' are specified"},
		{`{"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"g"}}`,
			"tool_choice", "invalid_value", "'g' is not one of"},
		{`{"input":"x","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}`, "tool_choice.tools", "empty_array", ""},
		{`{"input":"x","text":{"format":{"type":"json_schema","name":"n"}}}`, "text.format.schema",
			"missing_required_parameter", ""},
		{`{"input":"x","text":{"format":{"type":"xml"}}}`, "text.format.type", "invalid_value", ""},
		{`{"input":"x","metadata":{"` + long + `":"v"}}`, "metadata." + long[:64] + "…", "string_above_max_length", ""},
		{`{"input":"x","metadata":{"a":1}}`, "metadata.a", "invalid_type", ""},
		{`{"input":"x","include":"all"}`, "include", "invalid_type", ""},
		{`{"input":"x","prompt":{"id":"p"}}`, "prompt", "unsupported_parameter", ""},
		{`{"input":"x","reasoning":{"effort":"huge"}}`, "reasoning.effort", "invalid_value", ""},
	} {
		_, err := ParseResponse([]byte(c.body))
		checkRefusal(t, err, c.param, c.code, c.message)
	}
}

func TestParseResponse(t *testing.T) {
	r, err := ParseResponse(
		[]byte(
			`{"model":"m","input":[{"role":"user","content":"Hi"},{"type":"item_reference","id":"a"},{"id":"b","type":null}],
		"instructions":"I","store":false,"stream":true,"max_output_tokens":9,"temperature":0.3,"top_p":null,"truncation":"auto","parallel_tool_calls":false,
		"tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"web_search"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]},
		"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true},"verbosity":"low"},"reasoning":{"effort":"low"},"prompt_cache_key":"k","unknown":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Input) != 3 || r.Input[2].Type != ItemReference || r.Input[2].ID != "b" || r.Shape.Store || !r.Stream ||
		r.MaxTokens != 9 || !r.Drop || len(r.Tools) != 1 {
		t.Errorf("got %+v", r)
	}
	if want := (ToolChoice{Mode: ToolsRequired, Allowed: []string{"f"}, Single: true}); !cmp.Equal(r.ToolChoice, want) {
		t.Errorf("got %+v", r.ToolChoice)
	}
	if r.Format.Kind != "json_schema" || r.TemplateArgs["reasoning_effort"] != "low" ||
		string(r.Shape.Temperature) != "0.3" || string(r.Shape.TopP) != "1" {
		t.Errorf("got %+v", r)
	}
}

func TestMessagesOf(t *testing.T) {
	call := func(id string) Item {
		return Item{Type: ItemFunctionCall, CallID: id, Name: "f", Arguments: "{}"}
	}
	said := func(role, text string) Item {
		return Item{Type: ItemMessage, Role: role, Parts: []ItemPart{{Text: text}}}
	}
	messages, upto := MessagesOf("I", []Item{
		said("developer", "D"), said("user", "U"), {Type: ItemReasoning, Parts: []ItemPart{{Text: "R"}}}, call("1"),
		call("2"),
		{Type: ItemFunctionOutput, CallID: "1", Output: "x"}, {Type: ItemFunctionOutput, CallID: "2", Output: "y"},
		said("assistant", "A"), call("3"),
	})
	want := []Message{
		{Role: "system", Content: "I\n\nD", HasContent: true}, {Role: "user", Content: "U", HasContent: true},
		{Role: "assistant", Reasoning: "R",
			ToolCalls: []ToolCall{{ID: "1", Name: "f", Arguments: "{}"}, {ID: "2", Name: "f", Arguments: "{}"}}},
		{Role: "tool", Content: "x", HasContent: true, ToolCallID: "1"},
		{Role: "tool", Content: "y", HasContent: true, ToolCallID: "2"},
		{Role: "assistant", Content: "A", HasContent: true,
			ToolCalls: []ToolCall{{ID: "3", Name: "f", Arguments: "{}"}}},
	}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 2, 5, 6, 7, 9}, upto); diff != "" {
		t.Error(diff)
	}
}

func FuzzResponseRequest(f *testing.F) {
	for _, body := range []string{
		`{"input":"x","tools":[{"type":"function","name":"f","parameters":{}}],"tool_choice":{"type":"function","name":"f"}}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]}],"conversation":{"id":"c"}}`,
		`{"input":[{"type":"compaction","id":"cmp_1","encrypted_content":"SGk="},{"role":"user","content":"x"}]}`,
		`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"o"}]}]}`,
		`{"previous_response_id":"r","text":{"format":{"type":"json_schema","name":"n","schema":{}}},"metadata":{"a":"b"},"temperature":1e0}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := ParseInputTokens(body); err != nil {
			checkFuzzed(t, err)
		}
		r, err := ParseResponse(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if _, err := Encode(r.Shape); err != nil {
			t.Errorf("the response cannot be written: %v", err)
		}
		for _, item := range r.Input {
			again := mustEncode(t, item)
			parsed, err := ParseItem(again)
			if err != nil {
				t.Fatalf("%s is not read again: %v", again, err)
			}
			if diff := cmp.Diff(item, parsed); diff != "" && len(item.Parts) > 0 {
				t.Error(diff)
			}
		}
		MessagesOf(r.Instructions, r.Input)
	})
}

func mustEncode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func FuzzContent(f *testing.F) {
	f.Add([]byte(`"a"`))
	f.Add([]byte(
		`[{"type":"context","policy":"summarise","left_out_messages":2,"summary_shown":"s","summary_up_to":"msg_1"}]`))
	f.Add(
		[]byte(
			`[{"type":"output_text","text":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":""},{"type":"reasoning_text","text":"r"},7]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, item := range ParseContent("msg_1", "assistant", "failed", content) {
			mustEncode(t, item)
		}
		if note := ParseNote(content); note != nil {
			mustEncode(t, note)
		}
	})
}
