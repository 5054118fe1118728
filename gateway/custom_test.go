package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/engine/grammar"
	engines "parley/worker"
)

const (
	patchGrammar = `start: \"*** Begin Patch\" LF line+ \"*** End Patch\" LF?\nline: (\"+\" | \"-\") /(.*)/ LF\n%import common.LF`
	patchFormat  = `"syntax":"lark","definition":"` + patchGrammar + `"`
	chatPatch    = `,"tools":[{"type":"custom","custom":{"name":"apply_patch","description":"Edits files.",` +
		`"format":{"type":"grammar","grammar":{` + patchFormat + `}}}}]`
	flatPatch = `,"tools":[{"type":"custom","name":"apply_patch","description":"Edits files.",` +
		`"format":{"type":"grammar",` + patchFormat + `}}]`
	patchInput = "*** Begin Patch\n+say \"\\u00e9😀\"\n*** End Patch\n"
	patchJSON  = `"*** Begin Patch\n+say \"\\u00e9😀\"\n*** End Patch\n"`
	patchCall  = "<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": " +
		`"*** Begin Patch\n+say \"\\u00e9\ud83d\ude00\"\n*** End Patch\n"` + "}}\n</tool_call>"
)

// TestCustomTools has a client that hands a text to a tool, in chats: whole, streamed, and told of it later.
func TestCustomTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "I edit."+patchCall+"<|im_end|>", time.Second)}
		s := start(t, w, roomy)
		_, body := s.chat(chatPatch)
		want := `"content":"I edit.","refusal":null,"tool_calls":[{"id":"CALL","type":"custom",` +
			`"custom":{"name":"apply_patch","input":` + patchJSON + `}}]}`
		if got := callID.ReplaceAllString(body, "CALL"); !strings.Contains(got, want) ||
			!strings.Contains(got, `"finish_reason":"tool_calls"`) {
			t.Errorf("got %s", got)
		}
		prompt := w.askedText(0)
		if !strings.Contains(prompt, `The input is a text that matches this Lark grammar:\nstart: \"*** Begin`) ||
			strings.Contains(prompt, `"pattern"`) {
			t.Errorf("the model was told %s", prompt)
		}
		var input strings.Builder
		_, body = s.chat(chatPatch + `,"stream":true,"tool_choice":{"type":"custom","custom":{"name":"apply_patch"}}`)
		for _, event := range streamedEvents(body) {
			o := parseObject(t, event)
			input.WriteString(o.text("choices", "delta", "tool_calls", "custom", "input"))
			if strings.Contains(event, `"function"`) {
				t.Errorf("a function: %s", event)
			}
		}
		if input.String() != patchInput || strings.Count(body, `"type":"custom","custom":{"name":"apply_patch"`) != 1 {
			t.Errorf("%q of %s", input.String(), body)
		}
		s.do("POST", "/v1/chat/completions", `{"model":"`+modelID+`","messages":[{"role":"user","content":"Hi"},`+
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"custom",`+
			`"custom":{"name":"apply_patch","input":"a\nb"}}]},{"role":"tool","tool_call_id":"c1","content":"Done"}]}`)
		if got := w.askedText(2); !strings.Contains(got,
			`{"name": "apply_patch", "arguments": {"input":"a\nb"}}`) || !strings.Contains(got, "Done") {
			t.Errorf("the history is %s", got)
		}
	})
}

// byteMasker works on a vocabulary of single bytes.
func byteMasker() *grammar.Masker {
	return grammar.NewMasker(grammar.NewVocabulary(257, func(id parley.Token) []byte {
		if id == 0 {
			return nil
		}
		return []byte{byte(id - 1)}
	}, []parley.Token{0}), 1<<20)
}

// TestCustomToolsAreHeld compiles what the worker gets: inputs outside of the grammar cannot be written.
func TestCustomToolsAreHeld(t *testing.T) {
	for tools, inputs := range map[string][2]string{
		chatPatch: {patchJSON, `"*** Begin Patch\n*** End Patch"`},
		`,"tools":[{"type":"custom","custom":{"name":"apply_patch","format":{"type":"grammar",` +
			`"grammar":{"syntax":"regex","definition":"[a-c]+|\\d{2}"}}}}]`: {`"abba"`, `"abbax"`},
		`,"tools":[{"type":"custom","custom":{"name":"apply_patch"}}]`: {`"any text"`, `7`},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "x", 0)}
			s := start(t, w, roomy)
			s.chat(tools + `,"tool_choice":"required"`)
			program, err := grammar.Compile(w.request(t).Grammar)
			if err != nil {
				t.Fatal(err)
			}
			masker := byteMasker()
			for i, input := range inputs {
				text := "<tool_call>\n{\"name\": \"apply_patch\", \"arguments\": {\"input\": " + input +
					"}}\n</tool_call>"
				at, taken := masker.Start(program), 0
				for taken < len(text) && at.Accept(parley.Token(text[taken])+1) {
					taken++
				}
				if (taken == len(text)) != (i == 0) {
					t.Errorf("%s is taken up to %s", text, text[:taken])
				}
			}
		})
	}
}

// TestCustomResponses reads the events that agents read, and sends items back as they do.
func TestCustomResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, patchCall+"<|im_end|>", time.Second)}
		s := startKept(t, w, roomy)
		_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, flatPatch+`,"stream":true`))
		names, data := namedEvents(t, body)
		var input strings.Builder
		for i, name := range names {
			o := parseObject(t, data[i])
			switch name {
			case "response.custom_tool_call_input.delta":
				input.WriteString(o.text("delta"))
			case "response.custom_tool_call_input.done":
				if o.text("input") != patchInput || !strings.HasPrefix(o.text("item_id"), "ctc_") {
					t.Errorf("done: %s", data[i])
				}
			case "response.output_item.done":
				if o.text("item", "type") != "custom_tool_call" || o.text("item", "name") != "apply_patch" ||
					o.text("item", "input") != patchInput || o.text("item", "status") != "completed" {
					t.Errorf("the item is %s", data[i])
				}
			case "response.completed":
				if o.text("response", "tools", "format", "syntax") != "lark" ||
					o.text("response", "tools", "description") != "Edits files." {
					t.Errorf("completed: %s", data[i])
				}
			}
		}
		if input.String() != patchInput || !strings.Contains(body, "response.custom_tool_call_input.done") {
			t.Errorf("the input is %q in %v", input.String(), names)
		}
		whole := s.respond(`"Hi"`, flatPatch+`,"tool_choice":{"type":"custom","name":"apply_patch"}`)
		if whole.text("output", "input") != patchInput {
			t.Errorf("whole: %v", whole)
		}
		call := whole.text("output", "call_id")
		s.respond(`[{"type":"custom_tool_call_output","call_id":"`+call+`","output":"Done"}]`,
			flatPatch+`,"previous_response_id":"`+whole.text("id")+`"`)
		s.respond(`[{"role":"user","content":"Hi"},{"type":"custom_tool_call","call_id":"c1","name":"apply_patch",`+
			`"input":`+patchJSON+`},{"type":"custom_tool_call_output","call_id":"c1","output":[{"type":"input_text","text":"Done"}]}]`,
			flatPatch)
		for n := 2; n < 4; n++ {
			if got := w.askedText(n); !strings.Contains(got, `{"name": "apply_patch", "arguments": {"input":`) ||
				!strings.Contains(got, "Done") {
				t.Errorf("the model was asked %s", got)
			}
		}
	})
}

// TestCustomToolsOnForeignWorkers calls a custom tool on an engine that knows nothing of them.
func TestCustomToolsOnForeignWorkers(t *testing.T) {
	for kind, asks := range map[engines.Kind]string{engines.VLLM: chatPatch, engines.Ollama: `,"tools":[{"type":"custom",` +
		`"custom":{"name":"apply_patch"}}]`} {
		var body map[string]any
		s := start(t, foreignServer(t, kind, patchCall, &body), roomy)
		_, text := s.chat(asks)
		if !strings.Contains(text, `"custom":{"name":"apply_patch","input":`+patchJSON+`}`) {
			t.Errorf("%s: %s", kind, text)
		}
		if held := body["structured_outputs"] != nil; held != (kind == engines.VLLM) {
			t.Errorf("%s was asked %v", kind, body)
		}
	}
}

// TestCustomToolsWithoutAnInput keeps what a model writes in the place of an input.
func TestCustomToolsWithoutAnInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, strings.ReplaceAll(weatherCall, "weather", "code")+"<|im_end|>", time.Second)}
		s := start(t, w, roomy)
		_, body := s.chat(`,"tools":[{"type":"custom","custom":{"name":"code"}}]`)
		if !strings.Contains(body, `"custom":{"name":"code","input":"{\"city\": \"Rom\"}"}`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestCustomToolsAreRefused(t *testing.T) {
	tool := func(format string) string {
		return `,"tools":[{"type":"custom","custom":{"name":"x","format":` + format + `}}]`
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: func(*parley.Request) []say { return nil }}, roomy)
		for asks, want := range map[string]string{
			tool(`{"type":"grammar"}`): `"param":"tools[0].custom.format.grammar"`,
			tool(`{"type":"grammar","grammar":{"syntax":"lark","definition":"start: other"}}`): `Invalid 'tools[0].custom.format.` +
				`grammar.definition': the grammar cannot be used: line 1: there is no rule or terminal called \"other\".`,
			tool(`{"type":"grammar","grammar":{"syntax":"regex","definition":"("}}`): `missing closing )`,
			tool(`{"type":"grammar","grammar":{"syntax":"gbnf","definition":""}}`):   `Supported values are: 'lark', 'regex'`,
			tool(`{"type":"json"}`):                              `Supported values are: 'text', 'grammar'`,
			`,"tools":[{"type":"custom","custom":{}}]`:           `Missing required parameter: 'tools[0].custom.name'`,
			`,"tools":[{"type":"bash","custom":{"name":"x"}}]`:   `Supported values are: 'function', 'custom'`,
			`,"tools":[{"type":"custom","function":{"name":1}}]`: `Missing required parameter: 'tools[0].custom'`,
		} {
			if status, body := s.chat(asks); status != 400 || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", asks, status, body)
			}
		}
	})
}
