package gateway

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/dialect"

	"github.com/google/go-cmp/cmp"
)

const (
	weatherTool = `,"tools":[{"type":"function","function":{"name":"weather","description":"How it is.","strict":true,` +
		`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}]`
	weatherCall = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rom\"}}\n</tool_call>"
	jsonFormat  = `,"response_format":{"type":"json_schema","json_schema":{"name":"cat","schema":{"type":"object"}}}`
)

var callID = regexp.MustCompile(`call_[0-9a-f]{24}`)

// roomy gives a model the context that definitions of tools take.
func roomy(config *Config) { config.Models[0].ContextTokens = 4000 }

func TestToolCallWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "I look."+weatherCall+"\n"+weatherCall+"<|im_end|>", time.Second)},
			roomy)
		_, body := s.chat(weatherTool + `,"logprobs":true`)
		body = callID.ReplaceAllString(body, "CALL")
		call := `{"id":"CALL","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rom\"}"}}`
		want := `"message":{"role":"assistant","content":"I look.","refusal":null,"tool_calls":[` + call + `,` + call +
			`]}`
		if !strings.Contains(body, want) || !strings.Contains(body, `"finish_reason":"tool_calls"`) {
			t.Errorf("got %s", body)
		}
		if listed := strings.Count(body, `"top_logprobs":[`); listed != len(tokensOf(t, "I look.")) {
			t.Errorf("%d tokens are listed: only the content's are wanted", listed)
		}
		s.wantMetric(`parley_constrained_requests_total{kind="tools"}`, "1")
		s.wantMetric(`parley_finish_total{reason="tool_calls"}`, "1")
		s.wantLog("tools=1", "finish=tool_calls")
	})
}

// TestEveryTokenIsListedWhereTheEndIsIgnored counts log-probabilities of an answer that continues after the end of a
// turn.
func TestEveryTokenIsListedWhereTheEndIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const said = "One.<|im_end|>Two.<|im_end|>"
		s := start(t, &worker{script: speak(t, said, time.Second)})
		for extra, want := range map[string]int{`,"ignore_eos":true`: len(tokensOf(t, said)),
			"": len(tokensOf(t, "One.Two."))} {
			_, body := s.chat(`,"logprobs":true` + extra)
			if listed := strings.Count(body, `"top_logprobs":[`); listed != want {
				t.Errorf("%s: %d of %d tokens are listed: %s", extra, listed, want, body)
			}
		}
	})
}

func TestToolCallAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, weatherCall, time.Second)}, roomy)
		_, body := s.chat(weatherTool + `,"tool_choice":"required"`)
		if !strings.Contains(body,
			`"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"call_`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestToolCallStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Hm "+weatherCall, time.Second)}, roomy)
		_, body := s.chat(weatherTool + `,"stream":true`)
		chunks := streamedEvents(callID.ReplaceAllString(body, "CALL"))
		var deltas []string
		for _, chunk := range chunks {
			_, delta, _ := strings.Cut(chunk, `"delta":`)
			delta, _, _ = strings.Cut(delta, `,"logprobs"`)
			deltas = append(deltas, delta)
		}
		arguments := ""
		opened := false
		for _, d := range deltas {
			switch part := argumentsOf(d); {
			case strings.HasPrefix(d,
				`{"tool_calls":[{"index":0,"id":"CALL","type":"function","function":{"name":"weather","arguments":"`):
				arguments, opened = arguments+part, true
			case strings.HasPrefix(d, `{"tool_calls":[{"index":0,"function":{"arguments":"`):
				arguments += part
				if !opened {
					t.Errorf("arguments before the call: %v", deltas)
				}
			case strings.Contains(d, "tool_calls") || strings.Contains(d, "tool_call>"):
				t.Errorf("a chunk says %s", d)
			}
		}
		if arguments != `{\"city\": \"Rom\"}` || streamedText(body) != "Hm " || deltas[len(deltas)-1] != "{}" {
			t.Errorf("the chunks say %v", deltas)
		}
		if !strings.Contains(chunks[len(chunks)-1], `"finish_reason":"tool_calls"`) {
			t.Errorf("the last chunk is %s", chunks[len(chunks)-1])
		}
	})
}

// TestLegacyFunctions has clients of the older fields get what these promise, whole and streamed.
func TestLegacyFunctions(t *testing.T) {
	const functions = `,"functions":[{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, weatherCall+"<|im_end|>", time.Second)}
		s := start(t, w, roomy)
		_, body := s.chat(functions + `,"function_call":{"name":"weather"}`)
		for _, want := range []string{`"content":null,"refusal":null,"function_call":{"name":"weather","arguments":"{\"city\": \"Rom\"}"}}`,
			`"finish_reason":"function_call"`} {
			if !strings.Contains(body, want) {
				t.Errorf("no %s in %s", want, body)
			}
		}
		_, body = s.chat(functions + `,"stream":true`)
		if strings.Contains(body, "tool_calls") || !strings.Contains(body, `"function_call":{"name":"weather"`) ||
			!strings.Contains(body, `"function_call":{"arguments":"`) || !strings.Contains(body, `"finish_reason":"function_call"`) {
			t.Errorf("streamed: %s", body)
		}
	})
}

func argumentsOf(delta string) string {
	_, arguments, _ := strings.Cut(delta, `"arguments":"`)
	arguments, _, _ = strings.Cut(arguments, `"}}]}`)
	return arguments
}

// TestToolsTogether combines calls with several choices, a stop string, and an
// answer that was cut off.
func TestToolsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			return speech(t, r, time.Second, weatherCall, "No calls.")
		}}
		s := start(t, w, roomy)
		for _, extra := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`} {
			_, body := s.chat(weatherTool + `,"n":2` + extra)
			for _, want := range []string{`"finish_reason":"tool_calls"`, `"finish_reason":"stop"`} {
				if strings.Count(body, want) != 1 {
					t.Errorf("not exactly one %s in %s", want, body)
				}
			}
			if !strings.Contains(body, `"completion_tokens":`) {
				t.Errorf("no usage in %s", body)
			}
		}
		_, body := s.chat(weatherTool + `,"stop":["Rom"]`)
		if !strings.Contains(body, `"arguments":"{\"city\": \""`) || !strings.Contains(body, `"finish_reason":"stop"`) {
			t.Errorf("stopped: %s", body)
		}
		w.script = func(r *parley.Request) []say {
			said := speech(t, r, 0, "Well<tool_call>\n{\"name\": \"wea")
			said[len(said)-1].delta.Finish = parley.FinishLength
			return said
		}
		_, body = s.chat(weatherTool)
		if !strings.Contains(body, `"content":"Well","refusal":null}`) ||
			!strings.Contains(body, `"finish_reason":"length"`) {
			t.Errorf("cut off: %s", body)
		}
	})
}

// TestToolPrompt has a template that knows nothing of tools.
func TestToolPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w, roomy)
		prompt := func(body string) string {
			t.Helper()
			if response, answer := s.do("POST", "/v1/chat/completions",
				`{"model":"`+modelID+`",`+body+`}`); response.StatusCode != 200 {
				t.Fatal(answer)
			}
			return tinyTokenizer().Decode(w.asked[len(w.asked)-1].Prompt, false)
		}
		asked := `"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]`
		got := prompt(asked + weatherTool)
		want := "<|im_start|>system\nBe brief.\n\n" + strings.NewReplacer("CALL", "<tool_call>\n"+
			`{"name": "function-name", "arguments": {"argument": "value"}}`+"\n</tool_call>", "TOOLS", `{"type":"function","function":{"name":"weather","description":"How it is.",`+
			`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}`).Replace(dialect.Preamble) +
			"<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if got := prompt(asked + weatherTool + `,"tool_choice":"none"`); strings.Contains(got, "weather") {
			t.Errorf("with tool_choice none the prompt is %s", got)
		}
		call := func(id string) string {
			return `{"id":"` + id +
				`","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rom\"}"}}`
		}
		got = prompt(
			`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"So:","tool_calls":[` + call(
				"1") + `,` + call("2") + `]},` +
				`{"role":"tool","tool_call_id":"1","content":"dry"},{"role":"tool","tool_call_id":"2","content":"wet"}]`)
		want = "<|im_start|>assistant\nSo:\n" + weatherCall + "\n" + weatherCall + "<|im_end|>\n<|im_start|>user\n" +
			"<tool_response>\ndry\n</tool_response>\n<tool_response>\nwet\n</tool_response><|im_end|>\n" +
			"<|im_start|>assistant\n"
		if !strings.HasSuffix(got, want) {
			t.Error(cmp.Diff(want, got))
		}
	})
}

// TestFormatReachesTheWorker checks what answers are held to.
func TestFormatReachesTheWorker(t *testing.T) {
	schema := parley.JSONSchema([]byte(`{"type":"object"}`), false)
	weather := dialect.Tool{Name: "weather",
		Arguments: parley.JSONSchema(
			[]byte(
				`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`), true)}
	calls := func(single bool) parley.Grammar {
		return dialect.Table[0].Calls([]dialect.Tool{weather}, 1, single)
	}
	for _, c := range []struct {
		extra, metric string
		want          parley.Grammar
	}{
		{`,"response_format":{"type":"json_object"}`, "json_object", parley.JSONObject()},
		{jsonFormat, "json_schema", schema},
		{`,"guided_choice":["a"]`, "choice", parley.Choice(parley.Literal("a"))},
		{weatherTool, "tools", dialect.Table[0].MayCall([]dialect.Tool{weather}, false)},
		{weatherTool + `,"parallel_tool_calls":false`, "tools",
			dialect.Table[0].MayCall([]dialect.Tool{weather}, true)},
		{weatherTool + `,"tool_choice":"required"`, "tools", calls(false)},
		{weatherTool + `,"tool_choice":{"type":"function","function":{"name":"weather"}}`, "tools", calls(true)},
		{weatherTool + jsonFormat, "json_schema", parley.Choice(schema, calls(false))},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "x", 0)}
			s := start(t, w, roomy)
			s.chat(c.extra)
			if diff := cmp.Diff(&c.want, w.request(t).Grammar); diff != "" {
				t.Errorf("%s: %s", c.extra, diff)
			}
			s.wantMetric(`parley_constrained_requests_total{kind="`+c.metric+`"}`, "1")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w)
		s.complete(`,"prompt":"a","guided_regex":"b+"`)
		if g := w.request(t).Grammar; g == nil || g.Text != "b+" {
			t.Errorf("a plain completion is held to %+v", g)
		}
		s.wantLog("format=regex")
	})
}

// TestRefusedGrammar turns what the engine says into what the client wrote.
func TestRefusedGrammar(t *testing.T) {
	tools := strings.Replace(weatherTool, `}}}]`,
		`}}},{"type":"function","function":{"name":"other","strict":true,"parameters":{"type":"object","properties":{"x":{}}}}}]`, 1)
	for _, c := range []struct{ extra, engine, message, param, code string }{
		{jsonFormat, "at #/properties/x: no good",
			"Invalid schema for response_format 'cat': at #/properties/x: no good.",
			"response_format.json_schema.schema", "invalid_json_schema"},
		{jsonFormat, "no good", "Invalid schema for response_format 'cat': no good.",
			"response_format.json_schema.schema", "invalid_json_schema"},
		{`,"guided_regex":"("`, "no good", "Invalid 'guided_regex': no good.", "guided_regex", "invalid_value"},
		{tools, "at #/parts/1/parts/0/parts/1/parts/1/parts/1/properties/x: no good",
			"Invalid schema for function 'other': at #/properties/x: no good.",
			"tools[1].function.parameters", "invalid_function_parameters"},
		{tools + `,"tool_choice":"required"`, "at #/parts/0/parts/1/parts/0/parts/1: no good",
			"Invalid schema for function 'weather': no good.",
			"tools[0].function.parameters", "invalid_function_parameters"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, &worker{script: func(*parley.Request) []say {
				return []say{{err: parley.Invalid("grammar", "%s", c.engine)}}
			}}, roomy)
			for _, extra := range []string{"", `,"stream":true`} {
				status, body := s.chat(c.extra + extra)
				if status != 400 {
					t.Errorf("status %d", status)
				}
				wantBody(t, body,
					`{"error":{"message":"`+c.message+`","type":"invalid_request_error","param":"`+c.param+`","code":"`+
						c.code+`"}}`)
			}
		})
	}
}

// TestLooseTools falls back to any arguments for a tool that is not strict.
func TestLooseTools(t *testing.T) {
	loose := strings.Replace(weatherTool, `"strict":true,`, "", 1)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{}
		w.script = func(r *parley.Request) []say {
			if len(w.asked) == 1 {
				return []say{{err: parley.Invalid("grammar", "too complex")}}
			}
			return speech(t, r, 0, weatherCall)
		}
		s := start(t, w, roomy)
		status, body := s.chat(loose)
		if status != 200 || !strings.Contains(body, `"finish_reason":"tool_calls"`) {
			t.Errorf("status %d: %s", status, body)
		}
		want := dialect.Table[0].MayCall([]dialect.Tool{{Name: "weather", Arguments: parley.JSONObject()}},
			false)
		if diff := cmp.Diff(&want, w.asked[1].Grammar); diff != "" {
			t.Error(diff)
		}
	})
}

func TestThoughtsAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "<think>Let me see.</think>\n\nYes.<|im_end|>", time.Second)})
		s.gateway.models.All()[0].Tools.Thoughts = dialect.Thinking[0]
		_, body := s.chat("")
		if !strings.Contains(body,
			`"message":{"role":"assistant","content":"Yes.","reasoning_content":"Let me see.","refusal":null}`) {
			t.Errorf("got %s", body)
		}
		// What opens thoughts is one with its last token.
		thoughts := len(tokensOf(t, "<think>Let me see.</think>")) - len(tokensOf(t, "<think>")) + 1
		counted := fmt.Sprintf(`"completion_tokens_details":{"reasoning_tokens":%d}`, thoughts)
		if !strings.Contains(body, counted) {
			t.Errorf("there is no %s in %s", counted, body)
		}
		_, body = s.chat(`,"stream":true,"stream_options":{"include_usage":true}`)
		if !strings.Contains(body, `"delta":{"reasoning_content":"`) || streamedText(body) != "Yes." ||
			!strings.Contains(body, counted) {
			t.Errorf("got %s", body)
		}
	})
}
