package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/token"

	"github.com/google/go-cmp/cmp"
)

const completionHead = `{"id":"cmpl-ID","object":"text_completion","created":946684800,"model":"tiny/llama:1","choices":[`

// choicesOf cuts the choices out of an answer.
func choicesOf(body string) string {
	_, rest, _ := strings.Cut(body, `"choices":[`)
	choices, _, _ := strings.Cut(rest, `],"usage"`)
	return choices
}

func TestCompletionWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, " there", time.Second)}
		s := start(t, w)
		status, body := s.complete(`,"prompt":"Hello"`)
		if status != 200 || !strings.HasPrefix(body, completionHead) {
			t.Errorf("status %d: %s", status, body)
		}
		wantBody(t, choicesOf(body), `{"index":0,"text":" there","logprobs":null,"finish_reason":"stop"}`)
		if r := w.request(t); r.MaxTokens != 16 || !cmp.Equal(r.Prompt, tokensOf(t, "Hello")) {
			t.Errorf("asked for %+v", r)
		}
	})
}

func TestCompletionPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			text := tinyTokenizer().Decode(r.Prompt, true)
			return speech(t, r, time.Second, text+"0", text+"1")
		}}
		s := start(t, w)
		_, body := s.complete(`,"prompt":["a","b"],"n":2`)
		wantBody(t, choicesOf(body),
			`{"index":0,"text":"a0","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"a1","logprobs":null,"finish_reason":"stop"},`+
				`{"index":2,"text":"b0","logprobs":null,"finish_reason":"stop"},{"index":3,"text":"b1","logprobs":null,"finish_reason":"stop"}`)
		if !strings.Contains(body, `"usage":{"prompt_tokens":2,"completion_tokens":8,`) {
			t.Errorf("usage of two prompts: %s", body)
		}
		if w.asked[0].ID == w.asked[1].ID {
			t.Errorf("two requests are called %s", w.asked[0].ID)
		}
		_, body = s.complete(`,"prompt":[[52],[53]]`)
		wantBody(t, choicesOf(body), strings.NewReplacer("X", tinyTokenizer().Decode([]parley.Token{52}, true), "Y",
			tinyTokenizer().Decode([]parley.Token{53}, true)).
			Replace(
				`{"index":0,"text":"X0","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"Y0","logprobs":null,"finish_reason":"stop"}`))
		_, body = s.complete(`,"prompt":["a","b"],"stream":true`)
		if n := strings.Count(body, `"finish_reason":"stop"`); n != 2 || strings.Count(body, "[DONE]") != 1 {
			t.Errorf("%d choices end:\n%s", n, body)
		}
	})
}

func TestCompletionStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "A b", time.Second)})
		_, body := s.complete(`,"prompt":"Hi","stream":true,"echo":true,"stream_options":{"include_usage":true}`)
		var got []string
		for _, e := range streamedEvents(body) {
			got = append(got, strings.TrimPrefix(e, completionHead))
		}
		want := []string{
			`{"index":0,"text":"Hi","logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"index":0,"text":"A","logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"index":0,"text":" b","logprobs":null,"finish_reason":null}],"usage":null}`,
			`{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],"usage":null}`,
		}
		if len(got) != 5 || cmp.Diff(want, got[:4]) != "" ||
			!strings.HasPrefix(got[4], `],"usage":{"prompt_tokens":2,`) {
			t.Errorf("got %s", strings.Join(got, "\n"))
		}
	})
}

func TestCompletionLogprobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "é!", time.Second)})
		_, body := s.complete(`,"prompt":"é?","logprobs":1,"echo":true`)
		wantBody(t, choicesOf(body),
			`{"index":0,"text":"é?é!","logprobs":{"tokens":["bytes:\\xc3","bytes:\\xa9","?","bytes:\\xc3","bytes:\\xa9","!"],`+
				`"token_logprobs":[null,-1.5,-1.5,-0.5,-0.5,-0.5],"top_logprobs":[null,{"bytes:\\xa9":-1.5},{"?":-1.5},{"bytes:\\xc3":-0.5},{"bytes:\\xa9":-0.5},{"!":-0.5}],`+
				`"text_offset":[0,0,1,2,2,3]},"finish_reason":"stop"}`)
		_, body = s.complete(`,"prompt":"Hi","logprobs":2`)
		if !strings.Contains(body, `"top_logprobs":[{"\"":-3,"bytes:\\xc3":-0.5}`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestCompletionEchoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", time.Second)}
		s := start(t, w)
		_, body := s.complete(`,"prompt":"a?","logprobs":0,"echo":true,"max_tokens":0`)
		wantBody(t, choicesOf(body),
			`{"index":0,"text":"a?","logprobs":{"tokens":["a","?"],"token_logprobs":[null,-1.5],"top_logprobs":[null,{"?":-1.5}],"text_offset":[0,1]},"finish_reason":"length"}`)
		if !strings.Contains(body, `"completion_tokens":0,"total_tokens":2,`) {
			t.Errorf("got %s", body)
		}
		if r := w.request(t); r.MaxTokens != 1 || !r.PromptLogprobs {
			t.Errorf("asked for %+v", r)
		}
		_, body = s.complete(`,"prompt":"a?","logprobs":0,"echo":true,"max_tokens":0,"stream":true`)
		if !strings.Contains(body, `"text":"a?"`) || strings.Contains(body, `"text":"x"`) {
			t.Errorf("got %s", body)
		}
		s.complete(`,"prompt":["a?","b?"],"echo":true,"max_tokens":0`)
		s.wantMetric("parley_output_tokens_total", "0")
		s.wantMetric("parley_prompt_tokens_total", "8")
	})
}

func TestCompletionBestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			said := speech(t, r, time.Second, "a", "b", "c")
			for i, p := range []float32{-2, -1, -3} {
				said[i].delta.Logprobs[0].Logprob = p
			}
			return said
		}}
		s := start(t, w)
		_, body := s.complete(`,"prompt":"Hi","best_of":3,"n":2`)
		wantBody(t, choicesOf(body),
			`{"index":0,"text":"b","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"a","logprobs":null,"finish_reason":"stop"}`)
		if !strings.Contains(body, `"completion_tokens":3,`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestCompletionSuffix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "b", time.Second)}
		s := start(t, w)
		s.complete(`,"prompt":"a","suffix":"c"`)
		if want := tokensOf(t, "<|fim_prefix|>a<|fim_suffix|>c<|fim_middle|>"); !cmp.Equal(w.request(t).Prompt, want) {
			t.Errorf("asked for %v, want %v", w.request(t).Prompt, want)
		}
	})
}

func TestCompletionEmptyPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "b", time.Second)}
		s := start(t, w)
		s.complete(`,"prompt":""`)
		if bos := tinyTokenizer().Special().BOS; bos == token.None ||
			!cmp.Equal(w.request(t).Prompt, []parley.Token{bos}) {
			t.Errorf("an empty prompt asks for %v", w.request(t).Prompt)
		}
	})
}
