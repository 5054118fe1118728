package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley"
	"parley/gateway/infer"
	"parley/gateway/models"
	"parley/gateway/tenant"
	"parley/limit"
)

// BenchmarkLimitedChat is what the gateway takes for a short chat whose caller has
// limits of every kind.
func BenchmarkLimitedChat(b *testing.B) {
	w := &worker{script: speak(b, "Hello", 0)}
	g, err := New(Config{Models: []models.Config{{ID: modelID, Worker: w, Tokenizer: tinyTokenizer(),
		Template: tinyTemplate(b)}}, Share: infer.Sharing{Off: true}})
	if err != nil {
		b.Fatal(err)
	}
	limits := limit.Limits{RequestsPerSecond: 1e8, RequestsPerMinute: 1e8, InputTokensPerMinute: 1e8,
		OutputTokensPerMinute: 1e8, ConcurrentRequests: 100}
	who := &tenant.Identity{
		Organization: "acme",
		Key:          "k",
		Tier:         parley.Pro,
		Limits:       limits,
		KeyLimits:    limits,
	}
	g.who = func(*call) (*tenant.Identity, error) { return who, nil }
	body := chatBody(`,"max_tokens":4`)
	b.ReportAllocs()
	for b.Loop() {
		w.asked = nil
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		g.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			b.Fatal(answer.Code, answer.Body)
		}
	}
}
