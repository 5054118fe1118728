package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"parley/gateway/safety"
)

// apiSecret has the form of a key that the screens know.
const apiSecret = "sk-proj-" + "4fJ9xQ2mZ7vLb1TnR8wYc3Kd6HsP0aGe5UiOqXtBzNyMhWkV"

// fieldBodies has one request for every field that a model reads, with BAD in it.
var fieldBodies = []struct{ role, name, path, body string }{
	{"system", "system", "/v1/chat/completions",
		`"messages":[{"role":"system","content":"BAD"},{"role":"user","content":"a"}]`},
	{"system", "developer", "/v1/chat/completions",
		`"messages":[{"role":"developer","content":"BAD"},{"role":"user","content":"a"}]`},
	{"system", "instructions", "/v1/responses", `"store":false,"instructions":"BAD","input":"a"`},
	{"system", "messages system", "/v1/messages",
		`"max_tokens":9,"system":"BAD","messages":[{"role":"user","content":"a"}]`},
	{"user", "user", "/v1/chat/completions", `"messages":[{"role":"user","content":"BAD"}]`},
	{"user", "name", "/v1/chat/completions", `"messages":[{"role":"user","name":"BAD","content":"a"}]`},
	{"assistant", "assistant", "/v1/chat/completions",
		`"messages":[{"role":"assistant","content":"BAD"},{"role":"user","content":"a"}]`},
	{"assistant", "reasoning", "/v1/chat/completions",
		`"messages":[{"role":"assistant","content":"b","reasoning_content":"BAD"},{"role":"user","content":"a"}]`},
	{"assistant", "arguments", "/v1/chat/completions",
		`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":\"BAD\"}"}}]},{"role":"tool","tool_call_id":"1","content":"b"}]`},
	{"tool", "result", "/v1/chat/completions",
		`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"BAD"}]`},
	{"tool", "documents", "/v1/chat/completions",
		`"chat_template_kwargs":{"documents":[{"text":"BAD"}]},"messages":[{"role":"user","content":"a"}]`},
	{"definition", "description", "/v1/chat/completions",
		`"tools":[{"type":"function","function":{"name":"f","description":"BAD"}}],"messages":[{"role":"user","content":"a"}]`},
	{"definition", "parameters", "/v1/chat/completions",
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"x":{"type":"string","description":"BAD"}}}}}],"messages":[{"role":"user","content":"a"}]`},
	{"user", "completion", "/v1/completions", `"prompt":"BAD"`},
	{"user", "suffix", "/v1/fim/completions", `"prompt":"a","suffix":"BAD"`},
	{"user", "embedding", "/v1/embeddings", `"input":"BAD"`},
	{"user", "rerank query", "/v1/rerank", `"query":"BAD","documents":["a"]`},
	{"user", "rerank document", "/v1/rerank", `"query":"a","documents":["b",{"text":"BAD"}]`},
}

func screened(t *testing.T, policy, path, body, text string) (refused bool) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Hello", 0)}
		s := start(t, w, withPolicy(t, policy), roomy)
		response, answer := s.do("POST", path, `{"model":"`+modelID+`",`+strings.ReplaceAll(body, "BAD", text)+`}`)
		refused = response.StatusCode == http.StatusBadRequest && strings.Contains(answer, "safety policy")
		if refused && len(w.asked) != 0 {
			t.Errorf("the worker was asked although the prompt was refused")
		}
		if !refused && response.StatusCode == http.StatusBadRequest {
			t.Errorf("refused for another reason: %s", answer)
		}
	})
	return refused
}

// TestScreensCoverEveryField puts a secret and an injection into every field of
// every route. Secrets are found in all of them; injections in the roles that the
// policy names, or in users and tools.
func TestScreensCoverEveryField(t *testing.T) {
	const usual = "safety: {default: {input: {secrets: block, injection: block}}}"
	const everywhere = "safety: {default: {input: {injection: {action: block, roles: [all]}}}}"
	const systemOnly = "safety: {default: {input: {secrets: {action: block, roles: [system]}}}}"
	for _, f := range fieldBodies {
		t.Run(f.name, func(t *testing.T) {
			for _, c := range []struct {
				name, policy, text string
				refused            bool
			}{
				{"a secret", usual, "the key is " + apiSecret, true},
				{"an injection", usual, takeover, f.role == "user" || f.role == "tool"},
				{"an injection in all roles", everywhere, takeover, true},
				{"a secret in system prompts", systemOnly, "the key is " + apiSecret, f.role == "system"},
				{"ordinary words", usual, "the weather", false},
			} {
				if got := screened(t, c.policy, f.path, f.body, c.text); got != c.refused {
					t.Errorf("%s: refused %t, want %t", c.name, got, c.refused)
				}
			}
		})
	}
}

// TestEveryFieldIsRedacted has personal data replaced wherever the model reads it.
func TestEveryFieldIsRedacted(t *testing.T) {
	for _, f := range fieldBodies {
		if f.path == "/v1/embeddings" || f.path == "/v1/rerank" {
			continue // the worker is not asked for a chat
		}
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "Hello", 0)}
				s := start(t, w, withPolicy(t, "safety: {default: {input: {pii: redact}}}"), roomy,
					func(config *Config) {
						config.Models[0].Template = templateOf(t, borderTemplate)
					})
				body := strings.ReplaceAll(f.body, "BAD", "write to jane.roe@example.com")
				if response, answer := s.do("POST", f.path,
					`{"model":"`+modelID+`",`+body+`}`); response.StatusCode != 200 {
					t.Fatal(answer)
				}
				prompt := tinyTokenizer().Decode(w.request(t).Prompt, false)
				if strings.Contains(prompt, "jane.roe") || !strings.Contains(prompt, "EMAIL_1") {
					t.Errorf("the prompt is %q", prompt)
				}
			})
		})
	}
}

func TestPoliciesNameRoles(t *testing.T) {
	_, err := safety.ParseBook([]byte("safety: {default: {input: {pii: {action: flag, roles: [robot]}}}}"))
	if err == nil || !strings.Contains(err.Error(), `"robot"`) || !strings.Contains(err.Error(), "definition") {
		t.Errorf("a wrong role: %v", err)
	}
}

// TestModeratorsAreNotFollowed has a moderator redirect to another server, which
// must not be sent the prompt.
func TestModeratorsAreNotFollowed(t *testing.T) {
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		var stolen []string
		elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			stolen = append(stolen, r.Method)
		}))
		moderator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, status)
		}))
		policy := "safety: {default: {input: {hate: {action: block, when_down: closed}}, moderators: [m]}, " +
			"moderators: {m: {url: '" + moderator.URL + "'}}}"
		s := start(t, &worker{script: speak(t, "Hello", 0)}, withPolicy(t, policy), roomy)
		response, body := s.do("POST", "/v1/chat/completions", userSays("My PIN is 9182."))
		if response.StatusCode != http.StatusServiceUnavailable || len(stolen) != 0 {
			t.Errorf("status %d: %d %s; the other server was asked %v", status, response.StatusCode, body, stolen)
		}
		moderator.Close()
		elsewhere.Close()
	}
}
