package ollama

import (
	"strings"
	"testing"
	"time"

	"parley"
	"parley/gateway/openai"
)

// TestOptions sends each option by itself: it is honoured, without effect, or refused by
// its name.
func TestOptions(t *testing.T) {
	for options, check := range map[string]func(*openai.ChatRequest) bool{
		`"temperature":0.5`: func(r *openai.ChatRequest) bool { return r.Sampling.Temperature == 0.5 },
		``: func(r *openai.ChatRequest) bool {
			return r.Sampling.Temperature == 0.8 && r.Sampling.TopP == 0.9 && r.Sampling.TopK == 40 && !r.Seeded &&
				r.MaxTokens == 0 && r.Sampling.RepetitionPenalty == 0
		},
		`"top_p":0.5`:  func(r *openai.ChatRequest) bool { return r.Sampling.TopP == 0.5 },
		`"top_k":7`:    func(r *openai.ChatRequest) bool { return r.Sampling.TopK == 7 },
		`"min_p":0.25`: func(r *openai.ChatRequest) bool { return r.Sampling.MinP == 0.25 },
		`"seed":42`: func(r *openai.ChatRequest) bool {
			return r.Seeded &&
				r.Sampling.Seed == 42
		},
		`"seed":-1`: func(r *openai.ChatRequest) bool { return !r.Seeded },
		`"num_predict":9`: func(r *openai.ChatRequest) bool {
			return r.MaxTokens == 9 &&
				r.MaxTokensParam == ""
		},
		`"num_predict":-1`:        func(r *openai.ChatRequest) bool { return r.MaxTokens == 0 },
		`"stop":["a","b"]`:        func(r *openai.ChatRequest) bool { return len(r.Stop.Strings) == 2 },
		`"stop":"a"`:              func(r *openai.ChatRequest) bool { return len(r.Stop.Strings) == 1 },
		`"presence_penalty":0.5`:  func(r *openai.ChatRequest) bool { return r.Sampling.PresencePenalty == 0.5 },
		`"frequency_penalty":0.5`: func(r *openai.ChatRequest) bool { return r.Sampling.FrequencyPenalty == 0.5 },
		`"repeat_penalty":1.5`:    func(r *openai.ChatRequest) bool { return r.Sampling.RepetitionPenalty == 1.5 },
		`"repeat_penalty":1.5,"repeat_last_n":-1`: func(r *openai.ChatRequest) bool {
			return r.Sampling.RepetitionPenalty == 1.5
		},
		`"repeat_penalty":1.5,"repeat_last_n":0`: func(r *openai.ChatRequest) bool {
			return r.Sampling.RepetitionPenalty == 0
		},
		`"repeat_last_n":64`: func(r *openai.ChatRequest) bool { return r.Sampling.RepetitionPenalty == 0 },
		`"num_ctx":4096,"mirostat":0,"mirostat_tau":5,"tfs_z":1.0,"typical_p":1,"num_gpu":null`: func(r *openai.ChatRequest) bool { return true },
	} {
		c, err := ParseChat([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"options":{` + options + `}}`))
		if err != nil || !check(c.Request) {
			t.Errorf("%s: %v, %+v", options, err, c)
		}
	}
	for options, want := range map[string]string{
		`"temperature":9`:                         "Invalid 'options.temperature': decimal above maximum value.",
		`"num_predict":"x"`:                       `Unsupported 'options.num_predict': expected an integer, but got "x".`,
		`"num_ctx":0`:                             "Unsupported 'options.num_ctx': expected at least 1",
		`"repeat_penalty":0`:                      "'options.repeat_penalty'",
		`"repeat_penalty":1.5,"repeat_last_n":64`: "Unsupported 'options.repeat_last_n': 'repeat_penalty' counts all tokens here",
		`"mirostat":2`:                            "Unsupported 'options.mirostat': this server does not support it",
		`"num_gpu":99`:                            "Unsupported 'options.num_gpu': the operator decides",
		`"num_keep":4`:                            "Unsupported 'options.num_keep'",
		`"nonsense":1`:                            "Unsupported 'options.nonsense': there is no such option.",
	} {
		_, err := ParseChat([]byte(`{"messages":[{"role":"user","content":"x"}],"options":{` + options + `}}`))
		if err == nil || !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", options, err)
		}
	}
}

func TestRefusedBodies(t *testing.T) {
	const said = `"messages":[{"role":"user","content":"x"}]`
	for body, want := range map[string]string{
		``:          "The request body is empty. Send a JSON object.",
		`{`:         "The request body is not valid JSON",
		`{"a":1} x`: "The request body is not valid JSON",
		`{"messages":[{"role":"user","content":"x","images":["aGk="]}]}`: "Unsupported 'messages[0].images': this model takes text only.",
		`{"messages":[{"role":"bot","content":"x"}]}`:                    "Invalid 'messages[0].role'",
		`{"messages":7}`:                        "Invalid type for 'messages': got a number.",
		`{"stream":"x"}`:                        "Invalid type for 'stream': got a string.",
		`{` + said + `,"format":7}`:             "Invalid 'format': 7. Expected \"json\" or a JSON schema.",
		`{` + said + `,"think":"x"}`:            "Invalid 'think'",
		`{` + said + `,"keep_alive":"soon"}`:    `Invalid 'keep_alive': soon. Expected a time such as "5m", or seconds.`,
		`{` + said + `,"shift":true}`:           "Unsupported 'shift'",
		`{` + said + `,"tools":[{"type":"x"}]}`: "Invalid 'tools[0].type'",
	} {
		if _, err := ParseChat([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		} else if parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("%s has the code %v", body, parley.CodeOf(err))
		}
	}
	for body, want := range map[string]string{
		`{"prompt":"x","images":["aGk="]}`:        "Unsupported 'images': this model takes text only.",
		`{"prompt":"x","template":"{{.Prompt}}"}`: "Unsupported 'template'",
		`{"prompt":"x","raw":true,"system":"y"}`:  "Invalid 'raw'",
		`{"prompt":"x","context":[-1]}`:           "Invalid 'context': -1 is not a token.",
	} {
		if _, err := ParseGenerate([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := ParseSubject([]byte(`{"model":"x","insecure":true}`)); err == nil {
		t.Error("an unchecked download is accepted")
	}
	if _, err := ParseCopy([]byte(`{"source":"x"}`)); err == nil ||
		err.Error() != "Missing required parameter: 'destination'." {
		t.Errorf("%v", err)
	}
}

func TestKeepAlive(t *testing.T) {
	for raw, want := range map[string]time.Duration{`"5m"`: 5 * time.Minute, `30`: 30 * time.Second, `-1`: -time.Second,
		`"0"`: 0, `0`: 0, `"-1"`: -time.Second, `1.5`: 1500 * time.Millisecond} {
		if d, err := ParseKeepAlive([]byte(raw)); err != nil || d == nil || *d != want {
			t.Errorf("%s: %v, %v", raw, d, err)
		}
	}
	if d, err := ParseKeepAlive(nil); d != nil || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}

// TestToolResults answers calls by the tool's name, by an id, and in their order.
func TestToolResults(t *testing.T) {
	c, err := ParseChat([]byte(`{"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[
		{"function":{"name":"a","arguments":{"n":1}}},{"id":"mine","function":{"name":"b","arguments":{}}},
		{"function":{"name":"a"}}]},
		{"role":"tool","tool_call_id":"mine","content":"B"},{"role":"tool","tool_name":"a","content":"A"},
		{"role":"tool","content":"C"}],
		"format":{"type":"object"},"think":"low"}`))
	if err != nil {
		t.Fatal(err)
	}
	m := c.Request.Messages
	if m[1].ToolCalls[0].Arguments != `{"n":1}` || m[1].ToolCalls[2].Arguments != "{}" || m[2].ToolCallID != "mine" ||
		m[3].ToolCallID != m[1].ToolCalls[0].ID || m[4].ToolCallID != m[1].ToolCalls[2].ID {
		t.Errorf("%+v", m)
	}
	if c.Request.Format.Kind != "json_schema" || c.Request.TemplateArgs["enable_thinking"] != true ||
		c.Request.TemplateArgs["reasoning_effort"] != "low" || !c.Thinks || !c.Stream {
		t.Errorf("%+v", c)
	}
}

func TestNames(t *testing.T) {
	for id, want := range map[string]string{"polly": "polly:latest", "a:b": "a:b", "hf:org/x": "hf:org/x:latest"} {
		if got := Name(id); got != want {
			t.Errorf("%s is called %s", id, got)
		}
	}
	if Untagged("polly:latest") != "polly" {
		t.Error("the usual tag stays")
	}
}

// FuzzParse reads any bytes without a panic, and says what is wrong with them.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"options":{"stop":["a"]},"format":"json"}`))
	f.Add([]byte(`{"prompt":"x","suffix":"y","raw":true,"context":[1],"keep_alive":"5m"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, chat := ParseChat(body)
		_, generate := ParseGenerate(body)
		_, embed := ParseEmbed(body)
		for _, err := range []error{chat, generate, embed} {
			if code := parley.CodeOf(err); err != nil && code != parley.InvalidRequest {
				t.Errorf("%q: %v has the code %v", body, err, code)
			}
		}
	})
}
