package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/models"
)

// Models come and go while requests run: a new one answers at once, one that goes ends
// the answer it has begun, and the one that stays keeps its queue.
func TestModelsChangeWhileRequestsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &worker{script: speak(t, "one two three four", time.Second)}
		s := start(t, first)
		before := s.gateway.models.All()[0]
		second := models.Config{
			ID:            "second",
			Worker:        &worker{script: speak(t, "two", 0)},
			Tokenizer:     tinyTokenizer(),
			Template:      tinyTemplate(t),
			ContextTokens: 100,
			Default:       true,
		}
		both := []models.Config{before.Config, second}
		both[0].Default = false
		if err := s.gateway.SetModels(both); err != nil {
			t.Fatal(err)
		}
		if s.gateway.models.All()[0] != before {
			t.Error("a model that stays has lost its queue")
		}
		said := make(chan string)
		ask := `{"model":"` + modelID + `","messages":[{"role":"user","content":"Hi"}]}`
		go func() { said <- s.chatText(ask) }()
		time.Sleep(1500 * time.Millisecond) // it has begun
		if err := s.gateway.SetModels(both[1:]); err != nil {
			t.Fatal(err)
		}
		if text := s.chatText(`{"messages":[{"role":"user","content":"Hi"}]}`); !strings.Contains(text, "two") {
			t.Errorf("the new default said %q", text)
		}
		if text := <-said; !strings.Contains(text, "four") {
			t.Errorf("the answer of a model that went was cut: %q", text)
		}
		if text := s.chatText(ask); !strings.Contains(text, "model_not_found") {
			t.Errorf("a model that is gone said %q", text)
		}
		if err := s.gateway.SetModels(nil); err == nil {
			t.Error("a server without models was accepted")
		}
	})
}

// chatText returns the body of the answer to a chat.
func (s *server) chatText(body string) string {
	_, text := s.do("POST", "/v1/chat/completions", body)
	return text
}
