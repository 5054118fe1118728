package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/internal/testkit"
	"parley/sim/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a server that does what a test says, in virtual time.
type script struct {
	first, between time.Duration // before the first token, between tokens
	noUsage        bool
	noDone         bool
	// special may answer in place of the script; it returns false to decline.
	special func(w http.ResponseWriter, r *http.Request, n int) bool

	mu    sync.Mutex
	calls []call
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body call
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.calls = append(s.calls, body)
	n := len(s.calls)
	s.mu.Unlock()
	if s.special != nil && s.special(w, r, n) {
		return
	}
	s.answer(w, r, &body)
}

// answer streams the tokens asked for, in the shape of the endpoint.
func (s *script) answer(w http.ResponseWriter, r *http.Request, body *call) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	piece := `{"choices":[{"text":"word "}]}`
	if r.URL.Path == "/v1/chat/completions" {
		piece = `{"choices":[{"delta":{"content":"word "}}]}`
		send(w, `{"choices":[{"delta":{"role":"assistant","content":""}}]}`)
	}
	for i := range body.MaxTokens {
		wait := s.between
		if i == 0 {
			wait = s.first
		}
		pause(r, wait)
		send(w, piece)
	}
	send(w, `{"choices":[{"delta":{},"finish_reason":"length"}]}`)
	if !s.noUsage {
		send(w,
			fmt.Sprintf(
				`{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":16}}}`, body.MaxTokens))
	}
	if !s.noDone {
		send(w, "[DONE]")
	}
}

// pause waits, unless the client leaves.
func pause(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func send(w http.ResponseWriter, data string) {
	fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush()
}

// rig runs test with a client of the scripted server, in virtual time.
func rig(t *testing.T, s http.Handler, form Form, test func(ctx context.Context, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener, carrier := testkit.Listen()
		server := &http.Server{Handler: s}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		c, err := NewClient(Target{
			URL: "http://127.0.0.1", Model: "polly", Send: form, IgnoreEnd: true, HTTP: carrier, Timeout: time.Minute,
			Content: traffic.Content{First: traffic.DefaultFirst},
		})
		if err != nil {
			t.Fatal(err)
		}
		test(t.Context(), c)
		c.Close()
		_ = server.Close()
		<-served
		synctest.Wait()
	})
}

// workload returns independent requests of 16 and 5 tokens.
func workload() *traffic.Workload {
	return &traffic.Workload{Kind: traffic.Independent, Prompt: traffic.Fixed(16), Output: traffic.Fixed(5)}
}

// every returns an open loop of n requests, one every gap.
func every(gap time.Duration, n int) Plan {
	return Plan{
		Schedule:    traffic.Take(traffic.Stamp(workload().Stream(0, 1), func() time.Duration { return gap }), n),
		RequestsMax: n, DurationMax: time.Hour,
	}
}

// users returns a closed loop of n users.
func users(n, requests int) Plan {
	p := Plan{RequestsMax: requests, DurationMax: time.Hour}
	for i := range n {
		p.Users = append(p.Users, workload().Stream(i, n))
	}
	return p
}

func mustRun(t *testing.T, ctx context.Context, c *Client, p Plan) *Result {
	t.Helper()
	result, err := Run(ctx, c, p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func kinds(r *Result) (out []string) {
	for _, record := range r.Records {
		out = append(out, string(record.Outcome)+" "+record.Kind)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
