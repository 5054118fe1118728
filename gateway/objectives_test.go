package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestObjectivesByTierAndPurpose promises typing 200 ms and paid chat 700 ms to 99 of
// 100: first tokens after half a second miss the first promise alone, and each worker
// is told what was promised.
func TestObjectivesByTierAndPurpose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		w := &worker{script: speak(t, "one two", 500*ms)}
		s := start(t, w, func(c *Config) {
			c.Objectives = parley.Objectives{
				{Name: "typing", Purpose: parley.ForComplete, SLO: parley.SLO{TTFT: 200 * ms}},
				{
					Name: "paid", Models: []string{modelID}, Classes: []parley.Class{parley.Pro},
					SLO: parley.SLO{TTFT: 700 * ms, TPOT: 600 * ms}, TTFTShare: 0.99,
				},
			}
		})
		s.gateway.who = byKey
		told := func() time.Duration { return w.asked[len(w.asked)-1].Objective.TTFT }
		for _, c := range []struct {
			key, path, body string
			ttft            time.Duration
		}{
			{"free-a", "/v1/completions", `{"model":"` + modelID + `","prompt":"Hi"}`, 200 * ms},
			{"pro-a", "/v1/chat/completions", chatBody(""), 700 * ms},
			{"free-a", "/v1/chat/completions", chatBody(""), time.Second},
		} {
			if response, body := s.do("POST", c.path, c.body, "Authorization",
				"Bearer "+c.key); response.StatusCode != 200 {
				t.Fatal(body)
			}
			if told() != c.ttft {
				t.Errorf("the worker of %s at %s is told %v, want %v", c.key, c.path, told(), c.ttft)
			}
		}
		s.wantMetric(`parley_objective_missed_total{indicator="ttft",objective="typing"}`, "1")
		s.wantMetric(`parley_objective_missed_total{indicator="ttft",objective="paid"}`, "0")
		s.wantMetric(`parley_objective_missed_total{indicator="tpot",objective="paid"}`, "0")
		s.wantMetric(`parley_objective_total{indicator="ttft",objective="default"}`, "1")
		s.wantMetric(`parley_objective_share{indicator="ttft",objective="paid"}`, "0.99")
		s.wantMetric(`parley_objective_limit_seconds{indicator="ttft",objective="typing"}`, "0.2")
		s.wantMetric(`parley_ttft_seconds_count{objective="typing"}`, "1")
	})
}
