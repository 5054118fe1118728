package token

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
	"parley/token/jinja"
)

func mustChat(t testing.TB, source string, special map[string]string) *ChatTemplate {
	t.Helper()
	c, err := NewChatTemplate(source, special)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readGoldenJSON(t testing.TB, into any, elem ...string) {
	t.Helper()
	data, err := os.ReadFile(testkit.Golden(elem...))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestChatGolden compares with the renders of transformers.
func TestChatGolden(t *testing.T) {
	for _, model := range []string{"tiny-llama", "tiny-qwen2", "tiny-qwen3"} {
		t.Run(model, func(t *testing.T) {
			source, err := os.ReadFile(testkit.Golden(model, "chat_template.jinja"))
			if err != nil {
				t.Fatal(err)
			}
			var golden struct {
				Chats []struct {
					Messages []struct{ Role, Content string }
					Rendered string
				}
			}
			readGoldenJSON(t, &golden, model, "golden.json")
			if len(golden.Chats) == 0 {
				t.Fatal("the golden file has no chats")
			}
			chat := mustChat(t, string(source),
				map[string]string{"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"})
			for i, want := range golden.Chats {
				var messages []Message
				for _, m := range want.Messages {
					messages = append(messages, Message{Role: m.Role, Content: m.Content})
				}
				got, err := chat.Render(messages, RenderOptions{AddGenerationPrompt: true})
				if err != nil {
					t.Fatalf("chat %d: %v", i, err)
				}
				if got.String() != want.Rendered {
					t.Errorf("chat %d:\n got %q\nwant %q", i, got, want.Rendered)
				}
			}
		})
	}
}

func TestMessageKeys(t *testing.T) {
	chat := mustChat(t,
		"{{ messages|tojson }}{{ tools|tojson }}{{ documents is none }}{{ add_generation_prompt }}{{ bos_token "+
			"}}{{ eos_token is defined }}{{ think }}", map[string]string{"bos_token": "<s>"})
	extra := jinja.NewMap()
	extra.Set("tool_plan", "plan")
	messages := []Message{
		{Role: "user", Content: "q", Name: "ann"},
		{Role: "assistant", ReasoningContent: "r", ToolCalls: []ToolCall{
			{ID: "1", Name: "f", Arguments: `{"z": 1.0, "a": [2]}`},
			{Name: "g", Arguments: "not json"},
		}},
		{Role: "tool", Content: jinja.NewList("x"), ToolCallID: "1", Extra: extra},
	}
	got, err := chat.Render(messages,
		RenderOptions{Tools: json.RawMessage(`[{"z":1,"a":2}]`), Kwargs: map[string]any{"think": true}})
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"role": "user", "content": "q", "name": "ann"}, ` +
		`{"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [` +
		`{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"z": 1.0, "a": [2]}}}, ` +
		`{"type": "function", "function": {"name": "g", "arguments": "not json"}}]}, ` +
		`{"role": "tool", "content": ["x"], "tool_call_id": "1", "tool_plan": "plan"}]` +
		`[{"z": 1, "a": 2}]TrueFalse<s>FalseTrue`
	if got.String() != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestRenderNow(t *testing.T) {
	chat := mustChat(t, `{{ strftime_now("%d %b %Y") }}`, nil)
	got, err := chat.Render(nil, RenderOptions{Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	if err != nil || got.String() != "04 Mar 2026" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := chat.Render(nil, RenderOptions{}); err == nil {
		t.Error("a template that prints the date rendered without one")
	}
}

func TestContinueFinal(t *testing.T) {
	plain := "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>\n{% endfor %}"
	trimming := "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>\n{% endfor %}"
	parts, err := jinja.FromJSON([]byte(`[{"type":"text","text":"a"},{"type":"text","text":"</>"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, source string
		content      jinja.Value
		want         string
	}{
		{"kept", plain, "so far ", "<user>q</>\n<assistant>so far "},
		{"trimmed by the template", trimming, "so far ", "<user>q</>\n<assistant>so far"},
		{"space before", plain, " so far ", "<user>q</>\n<assistant> so far"},
		{"no text", plain, nil, ""},
		{"not printed", "{{ messages|length }}", "so far", ""},
		{"parts", "{% for m in messages %}{{ m.content[-1].text if m.content is not string }}!{% endfor %}", parts,
			"!</>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			messages := []Message{{Role: "user", Content: "q"}, {Role: "assistant", Content: c.content}}
			got, err := mustChat(t, c.source, nil).Render(messages, RenderOptions{ContinueFinal: true})
			if got.String() != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestChatErrors(t *testing.T) {
	for _, c := range []struct {
		name, source string
		opts         RenderOptions
		code         parley.Code
		message      string
	}{
		{"raised", `{{ raise_exception("Only user turns, please.") }}`, RenderOptions{}, parley.InvalidRequest,
			"Only user turns, please."},
		{"wrong type", `{{ "a" + messages }}`, RenderOptions{}, parley.InvalidRequest, "line 1"},
		{"too much", `{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}`,
			RenderOptions{Limits: jinja.Limits{Steps: 1000}}, parley.TooLarge, "1000 steps"},
		{"reserved", ``, RenderOptions{Kwargs: map[string]any{"messages": 1}}, parley.InvalidRequest, "messages"},
		{"strange", ``, RenderOptions{Kwargs: map[string]any{"x": struct{}{}}}, parley.InvalidRequest, "struct"},
		{"tools", ``, RenderOptions{Tools: json.RawMessage(`{`)}, parley.InvalidRequest, "tools"},
		{"tools kind", ``, RenderOptions{Tools: json.RawMessage(`{}`)}, parley.InvalidRequest, "list"},
		{"both", ``, RenderOptions{ContinueFinal: true, AddGenerationPrompt: true}, parley.InvalidRequest, "exclude"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := mustChat(t, c.source, nil).Render([]Message{{Role: "user", Content: "q"}}, c.opts)
			if err == nil || parley.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.message) {
				t.Errorf("got %v with code %s, want code %s and %q", err, parley.CodeOf(err), c.code, c.message)
			}
		})
	}
	if _, err := NewChatTemplate("a\n{% if %}", nil); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a template that cannot be parsed: %v", err)
	}
}
