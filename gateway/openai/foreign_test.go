package openai

import (
	"strings"
	"testing"

	"parley/worker/foreign"
)

func TestForeignFieldsAreHonouredOrRefused(t *testing.T) {
	for _, name := range foreign.FieldNames() {
		if foreign.FieldAsks(name, "false") {
			continue // they ask by being false
		}
		for value, refused := range map[string]bool{"null": false, "false": false, "[]": false, "3": true,
			`["a"]`: true} {
			_, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],"` + name + `":` +
				value + `}`))
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "'"+name+"'") {
				t.Errorf("%s %s: %v", name, value, err)
			}
		}
	}
	for field, refused := range map[string]bool{`"echo":true`: true, `"echo":false`: false, `"best_of":2`: true,
		`"best_of":1`: false, `"add_special_tokens":true`: true, `"add_special_tokens":false`: false,
		`"include_reasoning":false`: true, `"include_reasoning":true`: false, `"cache_salt":""`: true} {
		name, _, _ := strings.Cut(strings.Trim(field, `"`), `"`)
		_, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],` + field + `}`))
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "'"+name+"'") {
			t.Errorf("%s in a chat: %v", field, err)
		}
	}
	for field, refused := range map[string]bool{`"echo":true`: false, `"best_of":2`: false,
		`"add_special_tokens":true`: false, `"add_special_tokens":false`: true} {
		if _, err := ParseCompletion([]byte(`{"model":"m","prompt":"a",` + field + `}`)); (err != nil) != refused {
			t.Errorf("%s in a completion: %v", field, err)
		}
	}
	plain, err := ParseCompletion([]byte(`{"model":"m","prompt":"a","response_format":{"type":"json_object"}}`))
	if err != nil || plain.Format.Kind != "json_object" {
		t.Errorf("a format of a completion: %+v, %v", plain, err)
	}
	for field, kind := range map[string]string{`"json_schema":{"type":"object"}`: "json_schema",
		`"regex":"a+"`: "regex"} {
		r, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],` + field + `}`))
		if err != nil || r.Format.Kind != kind {
			t.Errorf("%s: %+v, %v", field, r, err)
		}
	}
}

// TestMediaInToolResults has a text stand for a picture that a tool returned, in all interfaces. A picture that
// a person sends is refused.
func TestMediaInToolResults(t *testing.T) {
	const picture = "left out, as this model reads text only"
	chat,
		err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":` +
		`[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c",` +
		`"content":[{"type":"text","text":"b"},{"type":"image_url","image_url":{"url":"data:x"}}]}]}`))
	if err != nil || chat.Messages[2].Content != "b\n[image_url: "+picture+"]" {
		t.Errorf("%+v, %v", chat, err)
	}
	const use = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":` +
		`[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result",` +
		`"tool_use_id":"c","content":[{"type":"image","source":{"type":"base64"}}]}]}]}`
	messages, err := ParseMessages([]byte(use))
	if err != nil || !strings.Contains(messages.Messages[2].Content, picture) {
		t.Errorf("%+v, %v", messages, err)
	}
	_,
		err = ParseMessages([]byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image"}]}]}`))
	if err == nil || !strings.Contains(err.Error(), "text only") {
		t.Errorf("a person's picture: %v", err)
	}
	text, err := readJoinedText(`[{"type":"input_image","image_url":"data:x"},{"type":"input_text","text":"b"}]`)
	if err != nil || !strings.Contains(text, picture) || !strings.HasSuffix(text, "b") {
		t.Errorf("%q, %v", text, err)
	}
}

// readJoinedText reads the output of a call in a response.
func readJoinedText(raw string) (string, error) {
	doc, err := document([]byte(`{"output":` + raw + `}`))
	if err != nil {
		return "", err
	}
	v, _ := doc.fields().take("output")
	return readJoined(v)
}

func TestOutputConfig(t *testing.T) {
	const body = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],"output_config":{"format":FORMAT}}`
	r, err := ParseMessages([]byte(strings.Replace(body, "FORMAT",
		`{"type":"json_schema","schema":{"type":"object"}}`, 1)))
	if err != nil || r.Format.Kind != "json_schema" || !r.Format.Grammar.Strict {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []string{`{"type":"xml"}`, `{"type":"json_schema"}`, `{"type":"json_schema","schema":3}`} {
		if _, err := ParseMessages([]byte(strings.Replace(body, "FORMAT", wrong, 1))); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
