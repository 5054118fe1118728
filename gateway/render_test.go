package gateway

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// TestRendered checks the text that the model is given.
func TestRendered(t *testing.T) {
	const template = `{% for m in messages %}<{{ m.role }}{% if m.name is defined %}={{ m.name }}{% endif %}>` +
		`{% if m.content is none %}NONE{% else %}{{ m.content | trim }}{% endif %}` +
		`{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{% if m.reasoning_content is defined %}({{ m.reasoning_content }}){% endif %};{% endfor %}` +
		`{% if enable_thinking is defined and not enable_thinking %}quiet{% endif %}{{ reasoning_effort }}{% if add_generation_prompt %}<assistant>{% endif %}`
	for _, c := range []struct{ name, body, want string }{
		{"roles",
			`"messages":[{"role":"developer","content":"a"},{"role":"user","name":"ann","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}]`,
			"<system>a;<user=ann>b\nc;<assistant>"},
		{"tools",
			`"messages":[{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"z\": 1, \"a\": 2}"}}]},{"role":"tool","tool_call_id":"1","content":"42"}]`,
			`<assistant>NONE[{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"z": 1, "a": 2}}}](hm);<tool=f>42;<assistant>`},
		{"arguments",
			`"chat_template_kwargs":{"enable_thinking":false},"reasoning_effort":"low","messages":[{"role":"user","content":"a"}]`, "<user>a;quietlow<assistant>"},
		{"closed", `"add_generation_prompt":false,"messages":[{"role":"user","content":"a"}]`, "<user>a;"},
		{"continued",
			`"continue_final_message":true,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" Once upon "}]`, "<user>a;<assistant>Once upon"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "x", 0)}
				s := start(t, w, func(config *Config) {
					config.Models[0].Template, config.Models[0].ContextTokens = templateOf(t, template), 1000
				})
				if response, body := s.do("POST", "/v1/chat/completions",
					`{"model":"`+modelID+`","max_tokens":1,`+c.body+`}`); response.StatusCode != 200 {
					t.Fatal(body)
				}
				if diff := cmp.Diff(c.want, tinyTokenizer().Decode(w.request(t).Prompt, false)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestTemplateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{}, func(config *Config) {
			config.Models[0].Template = templateOf(t, `{{ raise_exception("Roles must alternate.") }}`)
		})
		response, body := s.do("POST", "/v1/chat/completions", chatBody(""))
		if response.StatusCode != 400 {
			t.Errorf("status %d", response.StatusCode)
		}
		wantBody(t, body,
			`{"error":{"message":"Roles must alternate.","type":"invalid_request_error","param":"messages","code":null}}`)
	})
}
