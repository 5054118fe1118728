package openai

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConversationRefusals(t *testing.T) {
	parse := map[string]func(string) error{
		"conversation": func(body string) error { _, err := ParseConversation([]byte(body)); return err },
		"items":        func(body string) error { _, err := ParseConversationItems([]byte(body)); return err },
		"turn":         func(body string) error { _, err := ParseTurn([]byte(body)); return err },
		"resume":       func(body string) error { _, err := ParseResume([]byte(body)); return err },
		"frame":        func(body string) error { _, err := ParseResponseFrame([]byte(body)); return err },
	}
	for _, c := range []struct{ what, body, param, code, message string }{
		{"conversation", `{"title":7}`, "title", "invalid_type", ""},
		{"conversation", `{"pinned":"yes"}`, "pinned", "invalid_type", ""},
		{"conversation", `{"context_policy":"forget"}`, "context_policy", "invalid_value",
			"'refuse', 'drop', 'summarise'"},
		{"conversation", `{"items":[{"role":"user"}]}`, "items[0].content", "missing_required_parameter", ""},
		{"items", `{}`, "items", "missing_required_parameter", ""},
		{"items", `{"items":[]}`, "items", "empty_array", ""},
		{"items", `{"items":[{"id":"x"}]}`, "input", "item_not_found", ""},
		{"turn", `{}`, "content", "missing_required_parameter", ""},
		{"turn", `{"content":7}`, "content", "invalid_type", ""},
		{"turn", `{"content":"x","messages":[]}`, "messages", "unsupported_parameter", "send 'content'"},
		{"turn", `{"content":"x","n":2}`, "n", "integer_above_max_value", ""},
		{"turn", `{"content":"x","edit":"a","parent_id":"b"}`, "parent_id", "mutually_exclusive_parameters", ""},
		{"turn", `{"content":"x","regenerate":"a"}`, "regenerate", "mutually_exclusive_parameters", ""},
		{"turn", `{"tool_outputs":[{"output":"x"}]}`, "tool_outputs[0].tool_call_id", "missing_required_parameter", ""},
		{"turn", `{"content":"x","continue_final_message":true}`, "continue_final_message", "unsupported_parameter",
			""},
		{"resume", `{"temperature":9}`, "temperature", "decimal_above_max_value", ""},
		{"frame", `{"input":"x"}`, "type", "missing_required_parameter", ""},
		{"frame", `{"type":"response.stop"}`, "type", "invalid_value", "'response.create'"},
		{"frame", `{"type":"response.create"}`, "input", "missing_required_parameter", ""},
	} {
		checkRefusal(t, parse[c.what](c.body), c.param, c.code, c.message)
	}
}

func TestParseTurn(t *testing.T) {
	r, err := ParseTurn(
		[]byte(
			`{"tool_outputs":[{"tool_call_id":"a","output":"x"},{"tool_call_id":"b","output":[{"type":"input_text","text":"y"}]}],"edit":"m","stream":true,"max_tokens":5}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Item{{Type: ItemFunctionOutput, Status: "completed", CallID: "a", Output: "x"},
		{Type: ItemFunctionOutput, Status: "completed", CallID: "b", Output: "y"}}
	if diff := cmp.Diff(want, r.Question); diff != "" || r.Edit != "m" || !r.Stream || r.MaxTokens != 5 || !r.OpenTurn {
		t.Errorf("%s %+v", diff, r)
	}
}

func FuzzConversationRequest(f *testing.F) {
	for _, body := range []string{``, `{}`,
		`{"metadata":{"a":"b"},"items":[{"role":"user","content":"x"}],"title":"t","pinned":true,"context_policy":"drop"}`, `{"items":[{"id":"x"}]}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := ParseConversation(body); err != nil {
			checkFuzzed(t, err)
		}
		items, err := ParseConversationItems(body)
		if err != nil {
			checkFuzzed(t, err)
		} else if len(items) == 0 || len(items) > conversationItemsMax {
			t.Errorf("accepted %d items", len(items))
		}
	})
}

func FuzzTurnRequest(f *testing.F) {
	for _, body := range []string{`{"content":"x"}`,
		`{"content":[{"type":"text","text":"x"}],"edit":"m","tools":[{"type":"function","function":{"name":"f"}}]}`,
		`{"tool_outputs":[{"tool_call_id":"a","output":"x"}],"parent_id":"root"}`,
		`{"regenerate":"m","stream":true,"stream_options":{"include_usage":true}}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := ParseResume(body); err != nil {
			checkFuzzed(t, err)
		}
		r, err := ParseTurn(body)
		if err != nil {
			checkFuzzed(t, err)
			return
		}
		if r.Question == nil && r.Again == "" && r.Parent == "" || r.Choices != 1 {
			t.Errorf("accepted %+v", r)
		}
	})
}

func FuzzResponseFrame(f *testing.F) {
	f.Add([]byte(`{"type":"response.create","input":"x","model":"m"}`))
	f.Add([]byte(`{"type":"response.create","previous_response_id":"r","stream_id":"a"}`))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if _, err := ParseResponseFrame(frame); err != nil {
			checkFuzzed(t, err)
		}
	})
}
