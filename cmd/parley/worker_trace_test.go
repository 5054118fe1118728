package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A spanCatcher is a collector that keeps what it is sent.
type spanCatcher struct {
	mu    sync.Mutex
	spans []caughtSpan
}

type caughtSpan struct {
	Service                             string
	TraceID, SpanID, ParentSpanID, Name string
}

func (c *spanCatcher) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			Resource struct {
				Attributes []struct{ Value struct{ StringValue string } }
			}
			ScopeSpans []struct{ Spans []caughtSpan }
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range body.ResourceSpans {
		for _, s := range of.ScopeSpans[0].Spans {
			s.Service = of.Resource.Attributes[0].Value.StringValue
			c.spans = append(c.spans, s)
		}
	}
}

// named returns the span of a service by its name; false if it has not come.
func (c *spanCatcher) named(service, name string) (caughtSpan, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.spans, func(s caughtSpan) bool { return s.Service == service && strings.HasPrefix(s.Name, name) })
	if i < 0 {
		return caughtSpan{}, false
	}
	return c.spans[i], true
}

// TestTracesAcrossProcesses follows one trace from a client through the gateway's
// process into the worker's and its engine.
func TestTracesAcrossProcesses(t *testing.T) {
	taken := &spanCatcher{}
	receiver := httptest.NewServer(taken)
	defer receiver.Close()
	w := startWorker(t, "--otlp-endpoint", receiver.URL)
	s := startServer(t, "--model", "polly-mini", "--worker", w.url, "--otlp-endpoint", receiver.URL, "--log-level", "error")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(`{"max_tokens":8,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", parent)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	var front, answer, engine caughtSpan
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var a, b, c bool
		front, a = taken.named("parley", "chat ")
		answer, b = taken.named("parley-worker", "worker: answer")
		engine, c = taken.named("parley-worker", "engine: prefill")
		if a && b && c {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("only these came: %+v", taken.spans)
		}
	}
	for _, s := range []caughtSpan{front, answer, engine} {
		if s.TraceID != parent[3:35] {
			t.Errorf("%+v is of another trace", s)
		}
	}
	if front.ParentSpanID != parent[36:52] || answer.ParentSpanID != front.SpanID || engine.ParentSpanID != answer.SpanID {
		t.Errorf("the client's span %s has not below it %+v, that %+v, that %+v", parent[36:52], front, answer, engine)
	}
}
