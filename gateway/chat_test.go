package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/answer"

	"github.com/google/go-cmp/cmp"
)

const chunkHead = `data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":946684800,"model":"tiny/llama:1","choices":[`

func TestChatWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello there<|im_end|>", time.Second)}
		s := start(t, w)
		status, body := s.chat("")
		want := `{"id":"chatcmpl-ID","object":"chat.completion","created":946684800,"model":"tiny/llama:1","choices":[{"index":0,` +
			`"message":{"role":"assistant","content":"Hello there","refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":PT,"completion_tokens":CT,"total_tokens":TT,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":0}},` +
			`"timings":{"queued_ms":10,"prefill_ms":20,"decode_ms":1000,"prompt_per_second":PS,"predicted_per_second":DS,"cached":2,"cache_miss":"new"}}`
		prompt, output := len(w.request(t).Prompt), len(tokensOf(t, "Hello there<|im_end|>"))
		want = replaceNumbers(want, prompt, output)
		if status != 200 {
			t.Errorf("status %d", status)
		}
		wantBody(t, body, want)
		s.wantMetric(`parley_http_requests_total{code="200",route="/v1/chat/completions"}`, "1")
		s.wantMetric(`parley_finish_total{reason="stop"}`, "1")
		s.wantMetric("parley_requests_in_flight", "0")
		s.wantMetric("parley_cached_tokens_total", "2")
		s.wantMetric("parley_output_tokens_total", itoa(output))
		s.wantMetric("parley_prompt_tokens_total", itoa(prompt))
		s.wantMetric(`parley_ttft_seconds_sum{objective="default"}`, "1")
		s.wantMetric(`parley_inter_token_seconds_count{objective="default"}`, itoa(output-1))
		s.wantMetric(`parley_inter_token_seconds_sum{objective="default"}`, itoa(output-1))
		s.wantLog("route=/v1/chat/completions", "status=200", "model=tiny/llama:1", "ttft=1s", "queued=10ms",
			"finish=stop", "cancelled=false", "id=req_")
	})
}

func replaceNumbers(body string, prompt, output int) string {
	return strings.NewReplacer("PT", itoa(prompt), "CT", itoa(output), "TT", itoa(prompt+output),
		"PS", itoa((prompt-2)*50), "DS", itoa(output-1)).Replace(body)
}

func TestChatPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w)
		s.chat(
			`,"seed":7,"temperature":0,"stop":"zz","max_tokens":3,"n":2,"logprobs":true,"top_logprobs":1,"logit_bias":{"5":2}`)
		want := &parley.Request{
			Model: modelID, Class: parley.Enterprise, Tenant: localTenant,
			Prompt: tokensOf(t,
				"<|im_start|>system\nYou are a helpful "+
					"assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
			Turns:   []parley.Turn{{Role: "user", Text: "Hi"}},
			Choices: 2, MaxTokens: 3, Logprobs: true, TopLogprobs: 1,
			Sampling: parley.Sampling{TopP: 1, Seed: 7, LogitBias: map[parley.Token]float32{5: 2}},
			Stop:     parley.Stop{Strings: []string{"zz"}}, Purpose: parley.ForChat, Objective: parley.DefaultSLO(),
		}
		got := w.request(t)
		want.ID, want.Salt = got.ID, got.Salt
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestChatSeedsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w)
		s.chat("")
		s.chat("")
		if w.asked[0].Sampling.Seed == w.asked[1].Sampling.Seed || w.asked[0].ID == w.asked[1].ID {
			t.Errorf("two requests have the seed %d and the ids %s, %s", w.asked[0].Sampling.Seed, w.asked[0].ID,
				w.asked[1].ID)
		}
	})
}

func TestChatStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b<|im_end|>", time.Second)}
		s := start(t, w)
		response, body := s.do("POST", "/v1/chat/completions", chatBody(`,"stream":true`))
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache",
			"X-Accel-Buffering": "no", "Content-Encoding": "", "Content-Length": "",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		wantBody(t, anonymous(body), replaceNumbers(lines(
			chunkHead+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
			chunkHead+`{"index":0,"delta":{"content":"A"},"logprobs":null,"finish_reason":null}]}`,
			chunkHead+`{"index":0,"delta":{"content":" b"},"logprobs":null,"finish_reason":null}]}`,
			chunkHead+
				`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"timings":{"queued_ms":10,"prefill_ms":20,"decode_ms":1000,"prompt_per_second":PS,"predicted_per_second":DS,"cached":2,"cache_miss":"new"}}`,
			`data: [DONE]`), len(w.request(t).Prompt), 3))
	})
}

func TestChatStreamUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A<|im_end|>", time.Second)}
		s := start(t, w)
		_, body := s.chat(`,"stream":true,"stream_options":{"include_usage":true},"service_tier":"fast"`)
		wantBody(t, body, replaceNumbers(lines(
			chunkHead+
				`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null,"service_tier":"default"}`,
			chunkHead+
				`{"index":0,"delta":{"content":"A"},"logprobs":null,"finish_reason":null}],"usage":null,"service_tier":"default"}`,
			chunkHead+
				`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null,"service_tier":"default"}`,
			chunkHead+
				`],"usage":{"prompt_tokens":PT,"completion_tokens":CT,"total_tokens":TT,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default",`+
				`"timings":{"queued_ms":10,"prefill_ms":20,"decode_ms":1000,"prompt_per_second":PS,"predicted_per_second":DS,"cached":2,"cache_miss":"new"}}`,
			`data: [DONE]`), len(w.request(t).Prompt), 2))
	})
}

// TestChatStreamKeepsUsageTogether gives usage in a delta of its own.
func TestChatStreamKeepsUsageTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			said := speech(t, r, time.Second, "A b")
			last := &said[len(said)-1].delta
			usage := last.Usage
			last.Usage = nil
			return append(said, say{after: time.Second, delta: parley.Delta{Usage: usage}})
		}}
		s := start(t, w)
		_, body := s.chat(`,"stream":true`)
		if n := strings.Count(body, `"finish_reason":"stop"`); n != 1 {
			t.Errorf("%d finish chunks", n)
		}
		if !strings.HasSuffix(strings.TrimSpace(body), `"cached":2,"cache_miss":"new"}}`+"\n\ndata: [DONE]") {
			t.Errorf("the last chunk has no timings:\n%s", body)
		}
		if _, body := s.chat(""); !strings.Contains(body, `"content":"A b"`) ||
			!strings.Contains(body, `"finish_reason":"stop"`) {
			t.Errorf("collected: %s", body)
		}
	})
}

func TestChatChoicesInterleaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say { return speech(t, r, time.Second, "A", "B") }}
		s := start(t, w)
		_, body := s.chat(`,"stream":true,"n":2`)
		for _, want := range []string{
			`{"index":0,"delta":{"role":"assistant","content":""}`,
			`{"index":1,"delta":{"role":"assistant","content":""}`,
			`{"index":0,"delta":{"content":"A"}`, `{"index":1,"delta":{"content":"B"}`,
			`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`,
			`{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop"}],"timings"`,
		} {
			if strings.Count(body, want) != 1 {
				t.Errorf("not exactly one %s in\n%s", want, body)
			}
		}
		_, whole := s.chat(`,"n":2`)
		for _, want := range []string{`"index":0,"message":{"role":"assistant","content":"A"`,
			`"index":1,"message":{"role":"assistant","content":"B"`, `"completion_tokens":2,`} {
			if !strings.Contains(whole, want) {
				t.Errorf("no %s in %s", want, whole)
			}
		}
	})
}

func TestChatStopString(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four", time.Second)}
		s := start(t, w)
		_, body := s.chat(`,"stop":["o t"],"logprobs":true`)
		if !strings.Contains(body, `"content":"one tw","refusal"`) ||
			!strings.Contains(body, `"finish_reason":"stop"`) {
			t.Errorf("got %s", body)
		}
		_, body = s.chat(`,"stop":["o t"],"stream":true`)
		if strings.Contains(body, "three") || strings.Contains(body, "ee") {
			t.Errorf("text after the stop string is shown:\n%s", body)
		}
	})
}

func TestChatLogprobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "A😀<|im_end|>", time.Second)})
		_, whole := s.chat(`,"logprobs":true,"top_logprobs":2`)
		first := `{"token":"A","logprob":-0.5,"bytes":[65],"top_logprobs":[{"token":"A","logprob":-0.5,"bytes":[65]},{"token":"\"","logprob":-3,"bytes":[34]}]}`
		if !strings.Contains(whole, `"logprobs":{"content":[`+first+`,`) ||
			!strings.Contains(whole, `],"refusal":null},"finish_reason":"stop"`) {
			t.Errorf("got %s", whole)
		}
		if !strings.Contains(whole, `"token":"bytes:\\xf0`) || strings.Contains(whole, "im_end") {
			t.Errorf("half characters are not spelled out, or the end token is listed: %s", whole)
		}
		_, streamed := s.chat(`,"logprobs":true,"top_logprobs":2,"stream":true`)
		if got, want := strings.Count(streamed, `"top_logprobs"`), strings.Count(whole,
			`"top_logprobs"`); got != want || want < 2 {
			t.Errorf("%d entries streamed, %d in the whole answer", got, want)
		}
		if strings.Contains(streamed, "\ufffd") {
			t.Errorf("a character was split:\n%s", streamed)
		}
	})
}

// TestChatIncompleteEnd ends in the middle of a character, which is left out.
func TestChatIncompleteEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := tokensOf(t, "A😀")[:2]
		s := start(t, &worker{script: func(r *parley.Request) []say {
			return []say{{delta: parley.Delta{Tokens: half, Finish: parley.FinishLength,
				Usage: &parley.Usage{PromptTokens: 3, OutputTokens: 2}}}}
		}})
		_, body := s.chat("")
		if !strings.Contains(body, `"content":"A"`) || !strings.Contains(body, `"finish_reason":"length"`) {
			t.Errorf("got %s", body)
		}
	})
}

func TestPiecesJoin(t *testing.T) {
	got := answer.Join(answer.Join(nil, answer.Piece{Choice: 0, Text: "a"}), answer.Piece{Choice: 1, Text: "b"})
	got = answer.Join(got, answer.Piece{Choice: 0, Text: "c", Finish: parley.FinishStop})
	want := []answer.Piece{{Choice: 0, Text: "ac", Finish: parley.FinishStop}, {Choice: 1, Text: "b"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer.Piece{})); diff != "" {
		t.Error(diff)
	}
}
