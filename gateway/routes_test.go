package gateway

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

func TestRefusals(t *testing.T) {
	long := strings.Repeat("word ", 200)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{}, func(c *Config) { c.BodyBytesMax = 4000 })
		for _, c := range []struct {
			name, method, path, body string
			status                   int
			want                     string
		}{
			{"route", "GET", "/v2/x", "", 404, `"type":"invalid_request_error","param":null,"code":"unknown_url"`},
			{"no prefix", "POST", "/chat/completions", "{}", 404, `Did you mean /v1/chat/completions? See GET /`},
			{"absent", "POST", "/v1/images/generations", "{}", 404, `This server generates text only. See GET /`},
			{"trailing slash", "POST", "/v1/chat/completions/", "{}", 404, `"code":"unknown_url"`},
			{"method", "GET", "/v1/chat/completions", "", 405, `"code":"method_not_allowed"`},
			{"method", "DELETE", "/v1/models/" + modelID, "", 405, `"code":"method_not_allowed"`},
			{"model", "GET", "/v1/models/nope", "", 404, `"param":"model","code":"model_not_found"`},
			{"model", "POST", "/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`,
				404, "The model `nope` does not exist"},
			{"no model", "POST", "/v1/completions", `{"prompt":"x"}`, 400,
				`"param":"model","code":"missing_required_parameter"`},
			{"JSON", "POST", "/v1/chat/completions", `{"model":`, 400, `not valid JSON at byte 9`},
			{"large", "POST", "/v1/chat/completions", strings.Repeat(" ", 4001), 413, `"code":"request_too_large"`},
			{"context", "POST", "/v1/completions", `{"model":"` + modelID + `","prompt":"` + long + `"}`, 400,
				`"message":"This model's maximum context length is 100 tokens. However, your prompt resulted in`},
			{"context", "POST", "/v1/chat/completions",
				`{"model":"` + modelID + `","messages":[{"role":"user","content":"` + long + `"}]}`, 400,
				`"param":"messages","code":"context_length_exceeded"`},
			{"context", "POST", "/v1/completions", `{"model":"` + modelID + `","prompt":[1,2,3],"max_tokens":98}`, 400,
				`However, you requested 101 tokens (3 in the prompt, 98 in the completion).`},
			{"vocabulary", "POST", "/v1/completions", `{"model":"` + modelID + `","prompt":[1024]}`, 400,
				`token id 1024 is outside the model's vocabulary of 1024 tokens`},
			{"vocabulary", "POST", "/v1/chat/completions", chatBody(`,"logit_bias":{"5000":1}`), 400,
				`"param":"logit_bias.5000"`},
		} {
			response, body := s.do(c.method, c.path, c.body)
			if response.StatusCode != c.status || !strings.Contains(body, c.want) ||
				!strings.HasPrefix(body, `{"error":{"message":`) {
				t.Errorf("%s: %s %s gives %d: %s", c.name, c.method, c.path, response.StatusCode, body)
			}
			if (response.Header.Get("Allow") != "") != (c.status == 405) {
				t.Errorf("%s: Allow is %q", c.name, response.Header.Get("Allow"))
			}
		}
	})
}

func TestLargeBodyOfUnknownLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{}, func(c *Config) { c.BodyBytesMax = 4000 })
		r := mustRequest(t, t.Context(), "")
		r.Body, r.ContentLength = http.NoBody, -1
		r.Body = struct {
			*bytes.Reader
			nothingToClose
		}{bytes.NewReader(bytes.Repeat([]byte(" "), 5000)), nothingToClose{}}
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 413 {
			t.Errorf("status %d", response.StatusCode)
		}
	})
}

type nothingToClose struct{}

func (nothingToClose) Close() error { return nil }

func TestBodyMustBeJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "x", 0)})
		for kind, want := range map[string]int{
			"application/json": 200, "application/json; charset=utf-8": 200, "text/plain": 400,
			"application/x-www-form-urlencoded": 400, "": 400, ";": 400,
		} {
			if response, body := s.do("POST", "/v1/chat/completions", chatBody(""), "Content-Type",
				kind); response.StatusCode != want {
				t.Errorf("%q gives %d: %s", kind, response.StatusCode, body)
			}
		}
		if response, _ := s.do("POST", "/v1/chat/completions", chatBody(""), "Content-Encoding",
			"gzip"); response.StatusCode != 400 {
			t.Errorf("a compressed body gives %d", response.StatusCode)
		}
	})
}

func TestDefaultModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "x", 0)}, func(c *Config) { c.Models[0].Default = true })
		if response, body := s.do("POST", "/v1/completions", `{"prompt":"x"}`); response.StatusCode != 200 ||
			!strings.Contains(body, modelID) {
			t.Errorf("%d: %s", response.StatusCode, body)
		}
	})
}

func TestDefaultMaxTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "x", 0)}
		s := start(t, w)
		prompt := `[1` + strings.Repeat(`,1`, 94) + `]`
		s.complete(`,"prompt":` + prompt)
		if got := w.request(t).MaxTokens; got != 5 {
			t.Errorf("16 tokens after 95 of 100 became %d, want 5", got)
		}
	})
}

func TestModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{})
		one := `{"id":"tiny/llama:1","object":"model","created":946684800,"owned_by":"parley","max_model_len":100}`
		_, body := s.do("GET", "/v1/models", "")
		wantBody(t, body, `{"object":"list","data":[`+one+`]}`)
		for _, path := range []string{"/v1/models/tiny/llama:1", "/v1/models/tiny%2Fllama%3A1"} {
			_, body := s.do("GET", path, "")
			wantBody(t, body, one)
		}
	})
}

func TestHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{})
		response, body := s.do("GET", "/", "")
		if response.StatusCode != 200 || !strings.Contains(body, "curl http://parley/v1/chat/completions") ||
			!strings.Contains(body, modelID) {
			t.Errorf("%d: %s", response.StatusCode, body)
		}
		if response, body := s.do("HEAD", "/healthz", ""); response.StatusCode != 200 || body != "" {
			t.Errorf("HEAD gives %d: %s", response.StatusCode, body)
		}
	})
}

// busyWorker serves nothing yet.
type busyWorker struct{ worker }

func (*busyWorker) Models() []parley.Model { return nil }

func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &busyWorker{}, func(c *Config) { c.Models[0].ContextTokens = 10 })
		if response, _ := s.do("GET", "/readyz", ""); response.StatusCode != 503 {
			t.Errorf("status %d", response.StatusCode)
		}
	})
}

func TestCORS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := start(t, &worker{})
		response, _ := closed.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://a.example")
		if response.StatusCode != 204 || response.Header.Get("Access-Control-Allow-Origin") != "" ||
			response.Header.Get("Allow") != "OPTIONS, POST" {
			t.Errorf("by default: %d %v", response.StatusCode, response.Header)
		}
		open := start(t, &worker{}, func(c *Config) { c.AllowOrigins = []string{"https://a.example"} })
		response, _ = open.do("OPTIONS", "/v1/chat/completions", "", "Origin", "https://a.example",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers",
			"Authorization, x-stainless-os, x-evil")
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": "https://a.example", "Access-Control-Allow-Methods": "OPTIONS, POST",
			"Access-Control-Allow-Headers": "authorization, x-stainless-os",
		} {
			if got := response.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		response, _ = open.do("GET", "/v1/models", "", "Origin", "https://a.example")
		if !strings.Contains(response.Header.Get("Access-Control-Expose-Headers"), "x-request-id") {
			t.Errorf("headers %v", response.Header)
		}
		response, _ = open.do("GET", "/v1/models", "", "Origin", "https://b.example")
		if response.Header.Get("Access-Control-Allow-Origin") != "" || response.Header.Get("Vary") != "Origin" {
			t.Errorf("another origin gets %v", response.Header)
		}
	})
}

// TestPanicInHandler breaks the gateway's own clock in mid-request.
func TestPanicInHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		w := &breaking{broken: &broken}
		s := start(t, w, func(c *Config) {
			c.Admission.Off = true // it has the clock before the handler
			c.Now = func() time.Time {
				if broken {
					broken = false
					panic("no time")
				}
				return time.Now()
			}
		})
		status, body := s.chat("")
		if status != 500 || strings.Contains(body, "no time") {
			t.Errorf("%d: %s", status, body)
		}
		s.wantLog("level=ERROR", "no time", "request.go")
		s.wantMetric("parley_requests_in_flight", "0")
	})
}

func TestClientHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "x", 0)})
		s.do("POST", "/v1/chat/completions", chatBody(""), "X-Client-Request-Id", "mine-7", "X-Stainless-Retry-Count",
			"2",
			"Authorization", "Bearer any", "OpenAI-Organization", "org")
		s.do("POST", "/v1/chat/completions", chatBody(""), "X-Stainless-Retry-Count", "0")
		s.wantLog("client_id=mine-7")
		s.wantMetric("parley_client_retries_total", "1")
		if strings.Contains(s.log.String(), "/metrics") {
			t.Errorf("probes are in the log:\n%s", s.log)
		}
	})
}

func TestChatWithoutTemplate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "x", 0)}, func(c *Config) { c.Models[0].Template = nil })
		if status, body := s.chat(""); status != 400 || !strings.Contains(body, "has no chat template") {
			t.Errorf("%d: %s", status, body)
		}
		if status, _ := s.complete(`,"prompt":"x"`); status != 200 {
			t.Errorf("plain completions give %d", status)
		}
	})
}
