package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// weatherTool is a tool with one argument, as chat completions take it.
const weatherTool = `{"type":"function","function":{"name":"weather","parameters":{"type":"object",` +
	`"properties":{"city":{"enum":["Rom"]}},"required":["city"],"additionalProperties":false}}}`

// A fallbackCase is a request to a model that fails, and what its answer must have.
type fallbackCase struct {
	name, path, body string
	// want is in the answer, whichever model gives it.
	want []string
}

// fallbackCases ask the model gpt, on every interface that has conversations, with and without a tool.
func fallbackCases() []fallbackCase {
	tool := `"tools":[` + weatherTool + `],"tool_choice":{"type":"function","function":{"name":"weather"}}`
	return []fallbackCase{
		{"chat", "/v1/chat/completions", `{"model":"gpt","max_tokens":90,"parallel_tool_calls":false,` +
			`"messages":[{"role":"user","content":"Hi"}],` + tool + `}`,
			[]string{`"tool_calls":[{`, `"name":"weather"`, `\"Rom\"`, `"finish_reason":"tool_calls"`}},
		{"responses", "/v1/responses", `{"model":"gpt","max_output_tokens":90,"input":"Hi","parallel_tool_calls":false,"tool_choice":"required","tools":[` +
			`{"type":"function","name":"weather","parameters":{"type":"object","properties":{"city":{"enum":["Rom"]}},` +
			`"required":["city"],"additionalProperties":false}}]}`,
			[]string{`"type":"function_call"`, `"name":"weather"`, `\"Rom\"`}},
		{"messages", "/v1/messages", `{"model":"gpt","max_tokens":90,"messages":[{"role":"user","content":"Hi"}],` +
			`"tool_choice":{"type":"any","disable_parallel_tool_use":true},"tools":[{"name":"weather","input_schema":{"type":"object",` +
			`"properties":{"city":{"enum":["Rom"]}},"required":["city"],"additionalProperties":false}}]}`,
			[]string{`"type":"tool_use"`, `"name":"weather"`, `"Rom"`, `"stop_reason":"tool_use"`}},
		{"ollama chat", "/api/chat", `{"model":"gpt","stream":false,"messages":[{"role":"user","content":"Hi"}]}`,
			[]string{`"done":true`}},
		{"ollama generate", "/api/generate", `{"model":"gpt","stream":false,"prompt":"Hi"}`,
			[]string{`"done":true`}},
	}
}

// TestFallbacksOfEveryInterface has a model fail on every interface that has conversations: the call of a tool is that
// of the model asked instead, whether an upstream made it or the gateway read it from the text of its own engine, and
// the answer names that model.
func TestFallbacksOfEveryInterface(t *testing.T) {
	s, spare := newService(t), newService(t)
	t.Setenv("UPSTREAM_TEST_KEY", serviceKey)
	for _, to := range []string{"spare", "polly-mini", "claude"} {
		t.Run(to, func(t *testing.T) {
			c := frontOf(t, `model: polly-mini
upstreams:
  - name: chats
    url: `+s.URL+`/v1
    key_env: UPSTREAM_TEST_KEY
    models: {gpt: gpt-9}
  - name: spare
    url: `+spare.URL+`/v1
    key_env: UPSTREAM_TEST_KEY
    models: {spare: spare-1}
  - name: messages
    url: `+spare.URL+`
    kind: anthropic
    key_env: UPSTREAM_TEST_KEY
    models: {claude: claude-9}
fallbacks: {gpt: [`+to+`]}
`)
			c.ready(3)
			s.set(http.StatusTooManyRequests, `{"error":{"message":"slow down"}}`)
			for _, k := range fallbackCases() {
				for _, stream := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, stream %v", k.name, stream), func(t *testing.T) {
						body := strings.Replace(k.body, `"stream":false,`, "", 1)
						body = strings.Replace(body, "{", fmt.Sprintf(`{"stream":%v,`, stream), 1)
						status, text := post(t, c.front.url+k.path, body)
						// A stream of responses begins before a model does.
						named := stream && k.name == "responses" || !strings.Contains(text, `"model":"gpt"`)
						if status != http.StatusOK || !strings.Contains(text, `"model":"`+to+`"`) || !named {
							t.Errorf("%d, not of %s: %s", status, to, text)
						}
						for _, want := range k.want {
							if !stream && !strings.Contains(text, want) {
								t.Errorf("no %s in %s", want, text)
							}
						}
					})
				}
			}
			conversationFallsBack(t, c, to)
		})
	}
}

// conversationFallsBack has a turn of a conversation answered by another model, which the stored turn names.
func conversationFallsBack(t *testing.T, c *crew, to string) {
	t.Helper()
	_, text := post(t, c.front.url+"/v1/conversations", `{"model":"gpt"}`)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.ID == "" {
		t.Fatalf("%v: %s", err, text)
	}
	status, text := post(t, c.front.url+"/v1/conversations/"+made.ID+"/messages", `{"content":"Hi"}`)
	if status != http.StatusOK || !strings.Contains(text, `"model":"`+to+`"`) {
		t.Errorf("%d: the turn is not of %s: %s", status, to, text)
	}
	resp, err := http.Get(c.front.url + "/v1/conversations/" + made.ID + "/items?order=desc")
	if err != nil {
		t.Fatal(err)
	}
	var items struct {
		Data []struct{ Role, Model string }
	}
	text = string(bodyOf(t, resp))
	if err := json.Unmarshal([]byte(text), &items); err != nil || len(items.Data) != 2 || items.Data[0].Model != to {
		t.Errorf("%v: the stored turn is not of %s: %s", err, to, text)
	}
}
