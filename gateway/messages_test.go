package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/openai"

	"github.com/google/go-cmp/cmp"
)

const anthropicTool = `,"tools":[{"name":"weather","description":"How it is.","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`

func messagesBody(extra string) string {
	return `{"model":"` + modelID + `","max_tokens":50,"messages":[{"role":"user","content":"Hi"}]` + extra + `}`
}

func (s *server) message(extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", "/v1/messages", messagesBody(extra), "X-Api-Key", "any", "Anthropic-Version",
		"2023-06-01")
	if id := response.Header.Get("Request-Id"); id == "" || id != response.Header.Get("X-Request-Id") {
		s.t.Errorf("request-id is %q", id)
	}
	return response.StatusCode, anonymous(body)
}

func TestMessageWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b<|im_end|>", time.Second)}
		s := start(t, w)
		_, body := s.message(`,"metadata":{"user_id":"u"},"temperature":0.5,"top_k":3,"stop_sequences":["x","y"]`)
		r := w.request(t)
		wantBody(t, body,
			`{"id":"msg_ID","type":"message","role":"assistant","model":"tiny/llama:1","content":[{"type":"text","text":"A b"}],"stop_reason":"end_turn","stop_sequence":null,`+
				`"usage":{"input_tokens":`+itoa(
				len(r.Prompt)-2)+`,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":3}}`)
		if r.MaxTokens != 50 || r.Sampling.TopK != 3 || r.Sampling.Temperature != 0.5 ||
			!cmp.Equal(r.Stop.Strings, []string{"x", "y"}) || r.Retain != 0 {
			t.Errorf("asked for %+v", r)
		}
	})
}

func TestMessageStopReasons(t *testing.T) {
	for _, c := range []struct {
		said, extra, want string
		finish            parley.Finish
	}{
		{"A b", "", `"stop_reason":"end_turn","stop_sequence":null`, parley.FinishStop},
		{"A b", "", `"stop_reason":"max_tokens","stop_sequence":null`, parley.FinishLength},
		{"A bcd", `,"stop_sequences":["c","bc"]`, `"stop_reason":"stop_sequence","stop_sequence":"bc"`,
			parley.FinishStop},
		{weatherCall, anthropicTool, `"stop_reason":"tool_use","stop_sequence":null`, parley.FinishStop},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: func(r *parley.Request) []say {
					said := speech(t, r, 0, c.said)
					said[len(said)-1].delta.Finish = c.finish
					return said
				}}
				s := start(t, w, roomy)
				if _, body := s.message(c.extra + stream); !strings.Contains(body, c.want) {
					t.Errorf("%q%s gives %s, want %s", c.said, stream, body, c.want)
				}
			})
		}
	}
}

// named returns the names and bodies of the events of a stream.
func named(t *testing.T, body string) (events [][2]string) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
		if !ok || !json.Valid([]byte(data)) || !strings.Contains(data, `"type":"`+name+`"`) {
			t.Fatalf("frame %q", frame)
		}
		events = append(events, [2]string{name, data})
	}
	return events
}

func TestMessageStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hm "+weatherCall+"\n"+weatherCall, time.Second)}
		s := start(t, w, roomy)
		_, body := s.message(anthropicTool + `,"stream":true`)
		var got []string
		inputs, text := map[string]string{}, ""
		for _, e := range named(t, body) {
			var event struct {
				Index        int
				ContentBlock struct{ Type, ID, Name string } `json:"content_block"`
				Delta        struct {
					Type, Text  string
					PartialJSON string `json:"partial_json"`
				}
			}
			if err := json.Unmarshal([]byte(e[1]), &event); err != nil {
				t.Fatal(err)
			}
			switch line := e[0] + event.ContentBlock.Type + itoa(event.Index); {
			case e[0] == "content_block_delta":
				text += event.Delta.Text
				inputs[itoa(event.Index)] += event.Delta.PartialJSON
			default:
				got = append(got, line)
			}
			if event.ContentBlock.Type == "tool_use" && (!strings.HasPrefix(event.ContentBlock.ID, "toolu_") ||
				event.ContentBlock.Name != "weather") {
				t.Errorf("%s", e[1])
			}
		}
		want := "message_start0 ping0 content_block_starttext0 content_block_stop0 content_block_starttool_use1 " +
			"content_block_stop1 " +
			"content_block_starttool_use2 content_block_stop2 message_delta0 message_stop0"
		if strings.Join(got, " ") != want {
			t.Errorf("got %s\nwant %s", strings.Join(got, " "), want)
		}
		if strings.TrimSpace(text) != "Hm" || inputs["1"] != `{"city": "Rom"}` || inputs["2"] != inputs["1"] {
			t.Errorf("%q %v", text, inputs)
		}
		if !strings.Contains(body, `"usage":{"input_tokens":`+itoa(
			len(w.request(t).Prompt)-2)+`,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,`) {
			t.Errorf("%s", body)
		}
		s.settled(w)
	})
}

func TestMessageToolUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, weatherCall, 0)}
		s := start(t, w, roomy)
		_, body := s.message(anthropicTool + `,"tool_choice":{"type":"tool","name":"weather"}`)
		var m struct {
			Content []openai.ToolUseBlock `json:"content"`
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Content) != 1 ||
			string(m.Content[0].Input) != `{"city":"Rom"}` && string(m.Content[0].Input) != `{"city": "Rom"}` {
			t.Errorf("%v: %s", err, body)
		}
		if w.request(t).Grammar == nil {
			t.Error("the answer is not held to the tool")
		}
	})
}

// TestMessagePing keeps a silent stream open with events that clients of this
// interface know.
func TestMessagePing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "A", 40*time.Second)})
		_, body := s.message(`,"stream":true`)
		var got []string
		for _, e := range named(t, body) {
			got = append(got, e[0])
		}
		if want := "ping ping message_start ping content_block_start content_block_delta content_block_stop " +
			"message_delta message_stop"; strings.Join(got, " ") != want {
			t.Errorf("got %v", got)
		}
	})
}

func TestMessageErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: func(*parley.Request) []say {
			return []say{{err: parley.Errorf(parley.Overloaded, "No room.")}}
		}})
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"POST", "/v1/messages", `{"model":"x","messages":[{"role":"user","content":"x"}]}`, 400,
				`{"type":"error","error":{"type":"invalid_request_error","message":"Missing required parameter: 'max_tokens'."},"request_id":"req_ID"}`},
			{"POST", "/v1/messages", `{"model":"x","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`, 404,
				`"type":"not_found_error"`},
			{"POST", "/v1/messages", messagesBody(``), 529,
				`{"type":"error","error":{"type":"overloaded_error","message":"No room."},"request_id":"req_ID"}`},
			{"GET", "/v1/messages", ``, 405, `"type":"invalid_request_error"`},
			{"POST", "/v1/messages/nope", `{}`, 404, `"type":"not_found_error"`},
			{"POST", "/v1/messages/count_tokens", `{}`, 400, `"type":"invalid_request_error"`},
		} {
			response, body := s.do(c.method, c.path, c.body)
			if response.StatusCode != c.status || !strings.Contains(anonymous(body), c.want) {
				t.Errorf("%s %s gives %d: %s", c.method, c.path, response.StatusCode, body)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: func(r *parley.Request) []say {
			return []say{{delta: parley.Delta{Tokens: tokensOf(t, "A")}},
				{after: time.Second, err: parley.Errorf(parley.Overloaded, "No room.")}}
		}})
		_, body := s.message(`,"stream":true`)
		events := named(t, body)
		if last := events[len(events)-1]; last[0] != "error" ||
			!strings.Contains(last[1], `"type":"overloaded_error"`) {
			t.Errorf("%s", body)
		}
	})
}

// TestMessageCache reads what is kept, and for how long.
func TestMessageCache(t *testing.T) {
	for _, c := range []struct {
		name, extra string
		retain      time.Duration
		kept        bool
	}{
		{"none", `,"system":"Be brief."`, 0, false},
		{"system", `,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]`,
			5 * time.Minute, true},
		{"an hour", `,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}]`,
			time.Hour, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "A", 0)}
			s := start(t, w)
			_, body := s.message(c.extra)
			var m openai.ReplyMessage
			if err := json.Unmarshal([]byte(body), &m); err != nil {
				t.Fatal(err)
			}
			r, u := w.request(t), m.Usage
			if r.Retain != c.retain || u.CacheCreationInputTokens > 0 != c.kept ||
				u.InputTokens+u.CacheCreationInputTokens+u.CacheReadInputTokens != len(r.Prompt) {
				t.Errorf("%s: kept for %v, %+v of %d", c.name, r.Retain, u, len(r.Prompt))
			}
		})
	}
}

func TestCountTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A", 0)}
		s := start(t, w)
		s.message(`,"system":"Be brief."`)
		_, body := s.do("POST", "/v1/messages/count_tokens",
			`{"model":"`+modelID+`","system":"Be brief.","messages":[{"role":"user","content":"Hi"}]}`)
		wantBody(t, body, `{"input_tokens":`+itoa(len(w.request(t).Prompt))+`}`)
	})
}
