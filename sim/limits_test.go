package sim

import (
	"strings"
	"testing"
	"time"

	"parley/limit"
)

// limited is one organisation with more requests than its limits allow.
const limited = `
name: limited
duration: 2m
pools:
  - {workers: 1, replica: {model: llama-3-8b, device: h100}}
traffic:
  - name: a
    prompt: 100
    output: OUTPUT
    max_output: 4000
    rate: [{at: 0s, per_second: 20}]
    limits: {LIMITS}
    token_price: {input: 1.00, output: 10}
    retries: 3
    obey: true
`

// runLimited runs it until all users have left, and checks that nothing is reserved any more.
func runLimited(t *testing.T, limits, output string) *Result {
	t.Helper()
	s, err := newSimulation(read(t, strings.NewReplacer("LIMITS", limits, "OUTPUT", output).Replace(limited)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run()
	if err != nil {
		t.Fatal(err)
	}
	n := &s.crowds[0].tally
	if attempts := n.arrived + n.retried; attempts != n.finished+n.limited+n.rejected {
		t.Errorf("%d attempts, %d answered, %d refused by limits, %d rejected", attempts, n.finished, n.limited,
			n.rejected)
	}
	state := s.gate.accounts["a-0"]
	if state == nil || state.Running != 0 || state.Held != 0 {
		t.Errorf("at the end an account holds %+v", state)
	}
	return r
}

// TestLimitsHold: each limit lets through what it allows, and nothing more.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	for limits, most := range map[string]float64{
		"requests_per_minute: 60":       60,
		"requests_per_second: 1":        1,
		"input_tokens_per_minute: 6000": 60, // of 100 tokens
	} {
		r := runLimited(t, limits, "400")
		// Over any time t not more than limit + limit·t/period gets through.
		bound := most + r.Duration
		if got := float64(r.Total.Finished); got > bound || got < 0.9*120 {
			t.Errorf("%s: %.0f requests of %d are answered in %.0f s", limits, got, r.Total.Arrived, r.Duration)
		}
		if r.Total.Truncated != 0 || r.Total.Rejected != 0 {
			t.Errorf("%s: %d answers end early, %d requests are rejected", limits, r.Total.Truncated, r.Total.Rejected)
		}
	}
	if r := runLimited(t, "concurrent_requests: 4", "400"); r.Fleet.Running > 4 || r.Fleet.Running < 3 {
		t.Errorf("%.2f requests run at a time, of 4 that may", r.Fleet.Running)
	}
	if r := runLimited(t, "output_tokens_per_minute: 30000", "lognormal:200:1.2:4000"); r.Total.Truncated == 0 {
		t.Error("no answer grows beyond its estimate while nothing is left")
	}
	// A request costs 100 + 4000 millionths.
	r := runLimited(t, `monthly_budget: "1.00"`, "400")
	if spent := r.Total.Finished * 4100; spent > 1_000_000 || spent < 950_000 {
		t.Errorf("%d requests spend %d of 1000000", r.Total.Finished, spent)
	}
	if r.Total.Retried != 0 || r.Refused[0].Limit != limit.Budget {
		t.Errorf("%d retries of what will never be admitted: %+v", r.Total.Retried, r.Refused)
	}
}

// TestLimitsOfAShard: an organisation cannot be divided.
func TestLimitsOfAShard(t *testing.T) {
	s := read(t, strings.NewReplacer("LIMITS", "requests_per_minute: 60", "OUTPUT", "400").Replace(limited))
	if _, err := (Shard{Share: 0.5, Pace: 1}).Of(s); err == nil || !strings.Contains(err.Error(), "larger share") {
		t.Errorf("half of an organisation: %v", err)
	}
	s.Traffic[0].Tenants = 2
	part, err := Shard{Share: 0.5, Pace: 2}.Of(s)
	if err != nil || part.Traffic[0].Tenants != 1 || *part.Traffic[0].Limits != *s.Traffic[0].Limits ||
		part.Duration != time.Minute {
		t.Errorf("half of two: %+v, %v", part, err)
	}
	s.Traffic[0].Limits.RequestsPerMinute = -1
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "requests per minute is -1") {
		t.Errorf("a negative limit: %v", err)
	}
}
