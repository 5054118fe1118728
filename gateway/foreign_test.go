package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley"
	engines "parley/worker"
)

// foreignServer is an engine of a foreign kind that says text, in the format that is documented for the kind. It
// keeps the last body it got.
func foreignServer(t *testing.T, kind engines.Kind, text string, body *map[string]any) parley.Worker {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		*body = nil
		if err := json.Unmarshal(raw, body); err != nil {
			t.Error(err)
		}
		quoted := func(v any) []byte {
			b, _ := json.Marshal(v)
			return b
		}
		switch kind {
		case engines.VLLM:
			for _, id := range tokensOf(t, text) {
				fmt.Fprintf(w,
					`data: {"choices":[{"index":0,"text":"x","token_ids":[%d],"finish_reason":null}]}`+"\n\n", id)
			}
			fmt.Fprint(w, `data: {"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		case engines.Ollama:
			for _, c := range text {
				fmt.Fprintf(w, `{"response":%s,"done":false}`+"\n", quoted(string(c)))
			}
			fmt.Fprint(w, `{"response":"","done":true,"done_reason":"stop"}`+"\n")
		}
	}))
	t.Cleanup(s.Close)
	remote, err := engines.Dial(engines.Config{
		URL:           s.URL,
		Kind:          kind,
		ContextTokens: 4000,
		Model:         modelID,
		Text:          func(_ string, ids []parley.Token) string { return tinyTokenizer().Decode(ids, false) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remote.Close() })
	return remote
}

// TestToolsOnForeignWorkers calls tools on engines that know nothing of them.
func TestToolsOnForeignWorkers(t *testing.T) {
	loose := strings.ReplaceAll(weatherTool, `"strict":true,`, "")
	bare := `{"name": "weather", "arguments": {"city": "Rom"}}`
	for name, c := range map[string]struct {
		kind           engines.Kind
		says, asks     string
		field, content string
	}{
		"vLLM, auto":   {engines.VLLM, "I look." + weatherCall, loose, "", `"I look."`},
		"vLLM, strict": {engines.VLLM, weatherCall, weatherTool, "structured_outputs", "null"},
		"vLLM, required": {engines.VLLM, weatherCall, loose + `,"tool_choice":"required"`,
			"structured_outputs", "null"},
		"Ollama, auto":     {engines.Ollama, "I look." + weatherCall, loose, "", `"I look."`},
		"Ollama, required": {engines.Ollama, bare, weatherTool + `,"tool_choice":"required"`, "format", "null"},
		"Ollama, named, loose": {engines.Ollama, bare, loose +
			`,"tool_choice":{"type":"function","function":{"name":"weather"}}`, "format", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			var body map[string]any
			s := start(t, foreignServer(t, c.kind, c.says, &body), roomy)
			_, text := s.chat(c.asks)
			want := `"content":` + c.content + `,"refusal":null,"tool_calls":[{"id":"CALL","type":"function",` +
				`"function":{"name":"weather","arguments":"{\"city\": \"Rom\"}"}}]`
			if got := callID.ReplaceAllString(text, "CALL"); !strings.Contains(got, want) ||
				!strings.Contains(got, `"finish_reason":"tool_calls"`) {
				t.Errorf("got %s", got)
			}
			for _, field := range []string{"structured_outputs", "format"} {
				if (body[field] != nil) != (field == c.field) {
					t.Errorf("%s is %v", field, body[field])
				}
			}
			_, text = s.chat(c.asks + `,"stream":true`)
			var arguments strings.Builder
			for _, event := range streamedEvents(text) {
				arguments.WriteString(argumentsOf(event))
			}
			if strings.Count(text, `"name":"weather"`) != 1 || strings.ReplaceAll(arguments.String(), `\`,
				"") != `{"city": "Rom"}` {
				t.Errorf("%q in %s", arguments.String(), text)
			}
		})
	}
}

// TestWhatForeignWorkersCannotDo is refused by the name of the field at fault.
func TestWhatForeignWorkersCannotDo(t *testing.T) {
	for asks, say := range map[string]string{
		weatherTool:                   `"param":"tools"`,
		weatherTool + jsonFormat:      `"param":"response_format"`,
		`,"guided_regex":"[ab]{1,2}"`: `"param":"response_format"`,
	} {
		var body map[string]any
		s := start(t, foreignServer(t, engines.Ollama, "x", &body), roomy)
		if status, text := s.chat(asks); status != http.StatusBadRequest || !strings.Contains(text, say) ||
			body != nil {
			t.Errorf("%s: %d %s", asks, status, text)
		}
	}
}

// TestStatusesOfForeignWorkers has an engine refuse: its client gets the same status with the engine's words, without
// the engine's address.
func TestStatusesOfForeignWorkers(t *testing.T) {
	for _, c := range []struct {
		status      int
		body, after string
		want        string
		says        string
	}{
		{400, `{"error":{"message":"bad\nvalue\u0000 at HOST","param":"top_k"}}`, "",
			`{"message":"bad value at the engine","type":"invalid_request_error","param":"top_k","code":null}`, "400"},
		{400, `{"message":"This model's maximum context length is 5 tokens"}`, "",
			`{"message":"This model's maximum context length is 5 tokens","type":"invalid_request_error","param":null,` +
				`"code":"context_length_exceeded"}`, "400"},
		{404, ``, "", `{"message":"The engine answered with status 404 and gave no reason.",` +
			`"type":"invalid_request_error","param":null,"code":null}`, "404"},
		{405, `{"detail":"Method Not Allowed"}`, "", `{"message":"Method Not Allowed","type":"invalid_request_error",` +
			`"param":null,"code":"method_not_allowed"}`, "405"},
		{409, `no`, "", `{"message":"no","type":"invalid_request_error","param":null,"code":"conflict"}`, "409"},
		{413, `too big`, "", `{"message":"too big","type":"invalid_request_error","param":null,` +
			`"code":"request_too_large"}`, "413"},
		{418, `teapot`, "", `{"message":"teapot","type":"invalid_request_error","param":null,"code":null}`, "400"},
		{422, `{"detail":[{"loc":["body","x"]}]}`, "", `{"message":"[{\"loc\":[\"body\",\"x\"]}]",` +
			`"type":"invalid_request_error","param":null,"code":"unprocessable_entity"}`, "422"},
		{429, `{"error":{"message":"Slow down."}}`, "7", `{"message":"Slow down.","type":"rate_limit_error",` +
			`"param":null,"code":"rate_limit_exceeded"}`, "429 7"},
		{503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, "30",
			`{"message":"Loading model","type":"server_error","param":null,"code":"overloaded"}`, "503 30"},
	} {
		var host string
		upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c.after != "" {
				w.Header().Set("Retry-After", c.after)
			}
			w.WriteHeader(c.status)
			io.WriteString(w, strings.ReplaceAll(c.body, "HOST", host))
		}))
		host = strings.TrimPrefix(upstream.URL, "http://")
		defer upstream.Close()
		remote, err := engines.Dial(engines.Config{
			URL:           upstream.URL,
			Kind:          engines.VLLM,
			ContextTokens: 4000,
			Model:         modelID,
			Text:          func(_ string, ids []parley.Token) string { return tinyTokenizer().Decode(ids, false) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer remote.Close()
		s := start(t, remote, roomy)
		for _, extra := range []string{"", `,"stream":true`} {
			response, body := s.do("POST", "/v1/chat/completions",
				`{"model":"`+modelID+`","messages":[{"role":"user","content":"Hi"}]`+extra+`}`)
			got := strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", response.Header.Get("Retry-After")))
			if got != c.says || strings.TrimSpace(body) != `{"error":`+c.want+`}` {
				t.Errorf("%d: %s: %s, want %s: %s", c.status, got, body, c.says, c.want)
			}
		}
	}
}
