package openai

import (
	"strings"
	"testing"
	"time"

	"parley"

	"github.com/google/go-cmp/cmp"
)

func TestMessagesRefusals(t *testing.T) {
	for _, c := range []struct{ body, param, message string }{
		{`{"messages":[{"role":"user","content":"x"}]}`, "max_tokens", "Missing"},
		{`{"max_tokens":0,"messages":[{"role":"user","content":"x"}]}`, "max_tokens", ">= 1"},
		{`{"max_tokens":1}`, "messages", "Missing"},
		{`{"max_tokens":1,"messages":[]}`, "messages", "at least one"},
		{`{"max_tokens":1,"messages":[{"role":"tool","content":"x"}]}`, "messages[0].role", "'user'"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[]}]}`, "messages[0].content", "at least one block"},
		{`{"max_tokens":1,"messages":[{"role":"user"}]}`, "messages[0].content", "Missing"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]}`,
			"messages[0].content[0]", "This model takes text only"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"thinking"}]}]}]}`,
			"messages[0].content[0].content[0]", "cannot stand in"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_use"}]}]}`, "messages[0].content[0]",
			"cannot stand in"},
		{`{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f"}]}]}`,
			"messages[0].content[0].id", "Missing"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f"}]}`, "tools[0].input_schema",
			"Missing"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"bash_20250124","name":"bash"}]}`, "tools[0]", "no tools of its own"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tool_choice":{"type":"any"}}`, "tool_choice",
			"'tools' are given"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"g"}}`, "tool_choice", "no tool called 'g'"},
		{`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"2h"}}]}]}`, "messages[0].content[0].cache_control.ttl", "'1h'"},
		{`{"max_tokens":1,"temperature":1.5,"messages":[{"role":"user","content":"x"}]}`, "temperature", "<= 1"},
	} {
		_, err := ParseMessages([]byte(c.body))
		if err == nil {
			t.Errorf("accepted %s", c.body)
			continue
		}
		got := Describe(err, "").Body.Error
		if deref(got.Param) != c.param || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %q about %q", c.body, got.Message, deref(got.Param))
		}
	}
}

func TestMessagesAccepted(t *testing.T) {
	got, err := ParseMessages(
		[]byte(
			`{"model":"m","max_tokens":9,"stream":true,"stop_sequences":["x"],"thinking":{"type":"enabled","budget_tokens":5},
	"system":[{"type":"text","text":"one"},{"type":"text","text":"two","cache_control":{"type":"ephemeral"}}],
	"messages":[{"role":"user","content":"a"},{"role":"user","content":[{
		"type":"text","text":"b","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
	 {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{
		"type":"text","text":"c"},{"type":"tool_use","id":"t1","name":"f","input":{"k":1}}]},
	 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"bad"}]},{"type":"text","text":"and"}]},
	 {"role":"assistant","content":"So"}],
	"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],"tool_choice":{
		"type":"any","disable_parallel_tool_use":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{
		{Role: "system", Content: "one\ntwo", HasContent: true},
		{Role: "user", Content: "a\nb", HasContent: true},
		{Role: "assistant", Content: "c", HasContent: true, Reasoning: "hm",
			ToolCalls: []ToolCall{{"t1", "f", `{"k":1}`}}},
		{Role: "tool", ToolCallID: "t1", Content: "Error: bad", HasContent: true},
		{Role: "user", Content: "and", HasContent: true},
		{Role: "assistant", Content: "So", HasContent: true},
	}
	if diff := cmp.Diff(want, got.Messages); diff != "" {
		t.Error(diff)
	}
	if !got.ContinueFinal || got.OpenTurn || got.CacheAt != 2 || got.Retain != time.Hour || !got.Stream ||
		got.MaxTokens != 9 ||
		got.TemplateArgs["enable_thinking"] != true || got.ToolChoice.Mode != ToolsRequired ||
		!got.ToolChoice.Single || len(got.Tools) != 1 {
		t.Errorf("%+v", got)
	}
	count, err := ParseCountTokens(
		[]byte(
			`{"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","input_schema":{},"cache_control":{"type":"ephemeral"}}],"tool_choice":{"type":"none"}}`))
	if err != nil || count.CacheAt != 1 || count.ToolChoice.Mode != ToolsNone ||
		count.TemplateArgs["enable_thinking"] != false {
		t.Errorf("%+v %v", count, err)
	}
}

func TestMessageUsage(t *testing.T) {
	for _, c := range []struct{ prompt, cached, keep, input, created int }{
		{100, 0, 0, 100, 0}, {100, 40, 0, 60, 0}, {100, 0, 70, 30, 70}, {100, 40, 70, 30, 30}, {100, 80, 70, 20, 0},
		{100, 0, 500, 0, 100},
	} {
		u := MessageUsageOf(parley.Usage{PromptTokens: c.prompt, CachedTokens: c.cached, OutputTokens: 3}, c.keep)
		if u != (MessageUsage{c.input, c.created, c.cached, 3}) {
			t.Errorf("%+v gives %+v", c, u)
		}
	}
}

func FuzzMessagesRequest(f *testing.F) {
	for _, body := range []string{
		`{"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`,
		`{"max_tokens":1,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"a"}]}]}`,
		`{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"thinking","thinking":"x"}]}],"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}}`,
		`{"max_tokens":1,"messages":[{"role":"user","content":[]}]}`, `{"max_tokens":1,"messages":[{}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (*MessagesRequest, error){ParseMessages, ParseCountTokens} {
			r, err := parse(body)
			if err != nil {
				checkFuzzed(t, err)
				continue
			}
			if len(r.Messages) == 0 || r.CacheAt < 0 || r.CacheAt > len(r.Messages) {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}
