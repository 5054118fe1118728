package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A demo model is not asked for titles, and clients can see that it is one.
func TestDemoModelsTakeTitlesFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
		s := startKept(t, w, roomy, func(c *Config) { c.Models[0].Demo = true })
		path := s.converse("")
		s.tell(path, "Greet me, please.", "")
		time.Sleep(time.Minute)
		if _, o := s.call("GET", path, ""); o.text("title") != "Greet me, please" {
			t.Errorf("got %v", o)
		}
		w.request(t) // which fails if it was asked twice
		if _, text := s.do("GET", "/v1/models", ""); !strings.Contains(text, `"demo":true`) {
			t.Errorf("models are %s", text)
		}
		s.settled(w)
	})
}
