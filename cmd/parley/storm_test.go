package main

import (
	"context"
	"flag"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var stormReal = flag.Bool("storm", false, "run the storm on a real server, which takes two minutes of a quiet machine")

// The storm on a real server: stormUsual clients keep it busy, and in the storm there
// are ten times as many, which hang up after stormPatience times the time of an answer.
const (
	stormUsual    = 8
	stormPatience = 5 // times what an answer takes at full load
	stormTrip     = 100 * time.Millisecond
)

// TestStormOnPolly drives a real server with ten times the clients that it can
// serve, who leave when it takes too long and try again at once. make storm runs it.
func TestStormOnPolly(t *testing.T) {
	if !*stormReal {
		t.Skip("a measurement: make storm runs it")
	}
	with := stormOn(t, "--slo-tpot", "12ms", "--shed-start", "1s", "--shed-stop", "300ms")
	without := stormOn(t, "--admission", "off", "--breaker", "off")
	t.Logf("goodput in a storm of ten times the capacity: %.2f of it with the layers, %.2f without", with, without)
	// The clients compute on the same processors, so some of the capacity is theirs.
	if with < 0.8 || without > 0.5 {
		t.Error("expected more than 0.8 with the layers, and less than 0.5 without")
	}
}

// stormOn returns goodput in a storm as a share of what the server does when it
// is just full.
func stormOn(t *testing.T, args ...string) float64 {
	s := startServer(t, append(args, "--model", "polly", "--share", "off", "--log-level", "error")...)
	full := s.answered(t, stormUsual, time.Minute, 3*time.Second, 10*time.Second)
	if full == 0 {
		t.Fatalf("%v: none of %d clients got an answer in ten seconds; the machine must be quiet", args, stormUsual)
	}
	each := time.Duration(float64(stormUsual) / full * float64(time.Second))
	stormy := s.answered(t, 10*stormUsual, stormPatience*each, 2*stormPatience*each+3*time.Second, 15*time.Second)
	t.Logf("%v: %.2f answers a second when full, of %v each; %.2f in the storm", args, full,
		each.Round(time.Millisecond), stormy)
	return stormy / full
}

// answered returns how many whole answers a second a number of clients get that hang up
// after patience, counted for the time measure after the time settle.
func (s *server) answered(t *testing.T, clients int, patience, settle, measure time.Duration) float64 {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	var whole atomic.Int64
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(stormTrip) // the way there and back
				if s.asked(ctx, transport, patience) {
					whole.Add(1)
				}
			}
		})
	}
	time.Sleep(settle)
	before, began := whole.Load(), time.Now()
	time.Sleep(measure)
	rate := float64(whole.Load()-before) / time.Since(began).Seconds()
	cancel()
	group.Wait()
	return rate
}

// asked reports whether a whole answer came in time.
func (s *server) asked(ctx context.Context, by http.RoundTripper, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body := strings.NewReader(
		`{"messages":[{"role":"user","content":"Tell me a story."}],"ignore_eos":true,"max_tokens":200}`)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", body)
	if err != nil {
		return false
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := by.RoundTrip(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}
