package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/native"
	"parley/token"
)

// post sends a body with the model's name and returns status and answer.
func (s *server) post(path, extra string) (int, string) {
	s.t.Helper()
	response, body := s.do("POST", path, `{"model":"`+modelID+`"`+extra+`}`)
	return response.StatusCode, body
}

func TestTokenizeRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{}
		s := start(t, w)
		ids, err := tinyTokenizer().Encode("Hi you", token.Options{AddSpecial: true, ParseSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		list := string(must(json.Marshal(ids))(t))
		_, body := s.post("/tokenize", `,"prompt":"Hi you"`)
		wantBody(t, body, `{"count":`+itoa(len(ids))+`,"max_model_len":100,"tokens":`+list+`,"token_strs":null}`)
		var listed native.Tokens
		_, body = s.post("/tokenize", `,"prompt":"Hi you","return_token_strs":true,"add_special_tokens":false`)
		if err := json.Unmarshal([]byte(body), &listed); err != nil || strings.Join(listed.TokenStrs, "") != "Hi you" {
			t.Errorf("%s: %v", body, err)
		}
		_, body = s.post("/tokenize", `,"messages":[{"role":"user","content":"Hi"}]`)
		chat := native.Tokens{}
		if err := json.Unmarshal([]byte(body), &chat); err != nil || chat.Count <= len(ids) {
			t.Errorf("%s: %v", body, err)
		}
		_, rendered := s.post("/apply-template", `,"messages":[{"role":"user","content":"Hi"}]`)
		var prompt native.RenderedPrompt
		if err := json.Unmarshal([]byte(rendered), &prompt); err != nil || !strings.Contains(prompt.Prompt, "Hi") ||
			!strings.HasSuffix(prompt.Prompt, "<|im_start|>assistant\n") {
			t.Errorf("%s: %v", rendered, err)
		}
		_, body = s.post("/tokenize", `,"content":"Hi","with_pieces":true`)
		if !strings.Contains(body, `"piece":"`) || strings.Contains(body, "count") {
			t.Errorf("llama.cpp's shape is %s", body)
		}
		_, body = s.post("/tokenize", `,"content":""`)
		wantBody(t, body, `{"tokens":[]}`)
		_, body = s.post("/detokenize", `,"tokens":`+list)
		var text native.Detokenization
		if err := json.Unmarshal([]byte(body), &text); err != nil || !strings.HasSuffix(text.Prompt, "Hi you") ||
			text.Content != text.Prompt {
			t.Errorf("%s: %v", body, err)
		}
		for path, c := range map[string][2]string{
			"/tokenize":       {`,"prompt":"a","content":"b"`, "Send one of 'prompt', 'messages' and 'content'."},
			"/detokenize":     {`,"tokens":[9999]`, "Invalid 'tokens[0]': token id 9999 is outside the model's vocabulary"},
			"/apply-template": {``, "Missing required parameter: 'messages'."},
		} {
			if status, body := s.post(path, c[0]); status != 400 || !strings.Contains(body, c[1]) {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if len(w.asked) != 0 {
			t.Errorf("the worker was asked %d times", len(w.asked))
		}
	})
}

func TestVersionAndProps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{}, func(c *Config) {
			c.Version = "1.2.3"
			c.Models[0].Default = true
		})
		_, body := s.do("GET", "/version", "")
		wantBody(t, body, `{"version":"1.2.3"}`)
		for _, method := range []string{"GET", "POST"} {
			if response, body := s.do(method, "/ping", ""); response.StatusCode != 200 {
				t.Errorf("%s /ping: %d %s", method, response.StatusCode, body)
			}
		}
		_, body = s.do("GET", "/props", "")
		if !strings.Contains(body, `"n_ctx":100`) || !strings.Contains(body, `"build_info":"parley 1.2.3"`) ||
			!strings.Contains(body, `"chat_template":"{%`) {
			t.Errorf("got %s", body)
		}
		if response, body := s.do("GET", "/props?model=nope", ""); response.StatusCode != 404 {
			t.Errorf("%d %s", response.StatusCode, body)
		}
	})
}

func TestScores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &embedder{})
		_, body := s.post("/v1/score", `,"text_1":"a","text_2":["a","a longer text"]`)
		var list native.ScoreList
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Data) != 2 ||
			list.Data[0].Score < 0.999999 ||
			list.Data[1].Score >= list.Data[0].Score || list.Data[1].Index != 1 || list.Usage.PromptTokens == 0 {
			t.Errorf("%s: %v", body, err)
		}
		for extra, want := range map[string]string{
			`,"text_1":"a"`: "Missing required parameter: 'text_2'.",
			`,"text_1":["a","b"],"text_2":["a","b","c"]`:                    "Invalid 'text_1': 2 texts, but 'text_2' has 3.",
			`,"text_1":7,"text_2":"a"`:                                      "Invalid 'text_1'",
			`,"text_1":"` + strings.Repeat("word ", 300) + `","text_2":"a"`: "maximum context length",
		} {
			if status, body := s.post("/score", extra); status != 400 || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", extra, status, body)
			}
		}
		if status, body := s.post("/rerank", `,"query":"a","documents":["a","b"]`); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	})
}

func TestInfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "return a", time.Second)}
		s := start(t, w)
		body := `,"input_prefix":"def f(a):\n    ","input_suffix":"\n","n_predict":20,"temperature":0,"cache_prompt":true,` +
			`"samplers":["top_k","infill"],"input_extra":[{"filename":"x.py","text":"import os"}]`
		_, whole := s.post("/infill", body)
		var answer native.Gap
		if err := json.Unmarshal([]byte(whole), &answer); err != nil || answer.Content != "return a" || !answer.Stop ||
			answer.StopType != "eos" || answer.TokensPredicted != len(tokensOf(t, "return a")) ||
			answer.Timings.PredictedMs != 1000 {
			t.Errorf("%s: %v", whole, err)
		}
		request := w.request(t)
		prompt := tinyTokenizer().Decode(request.Prompt, false)
		if !strings.Contains(prompt, "--- snippet ---\n\nimport os") || request.MaxTokens != 20 ||
			request.Sampling.Temperature != 0 {
			t.Errorf("asked %q, %+v", prompt, request)
		}
		response, streamed := s.do("POST", "/infill", `{"model":"`+modelID+`","stream":true`+body+`}`)
		var text strings.Builder
		events := strings.Split(strings.TrimSpace(streamed), "\n\n")
		for i, event := range events {
			var e native.Gap
			if err := json.Unmarshal([]byte(strings.TrimPrefix(event, "data: ")), &e); err != nil ||
				e.Stop != (i == len(events)-1) {
				t.Fatalf("%s: %v", event, err)
			}
			text.WriteString(e.Content)
		}
		if text.String() != "return a" || response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("got %s", streamed)
		}
		if _, warm := s.post("/infill", `,"input_prefix":"a","input_suffix":"b","n_predict":0`); !strings.Contains(warm,
			`"content":""`) || !strings.Contains(warm, `"tokens_predicted":0`) {
			t.Errorf("a warm-up gives %s", warm)
		}
		for extra, want := range map[string]string{
			`,"grammar":"root ::= x"`: "Unsupported parameter: 'grammar'",
			`,"n_probs":5`:            "Unsupported parameter: 'n_probs'",
			`,"input_prefix":7`:       "Invalid type for 'input_prefix'.",
			`,"n_predict":"x"`:        "Invalid type for 'n_predict'.",
		} {
			if status, body := s.post("/infill", extra); status != 400 || !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", extra, status, body)
			}
		}
	})
}
