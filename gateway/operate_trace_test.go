package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/gateway/admin"
	"parley/gateway/otlp"
)

// A collector is an OTLP receiver: it takes what a real one takes over HTTP.
type collector struct {
	mu    sync.Mutex
	spans []collected
}

type collected struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Attributes                          []struct {
		Key   string
		Value map[string]any
	}
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []collected }
		}
	}
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" ||
		json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range body.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func TestTracesReachACollector(t *testing.T) {
	taken := &collector{}
	receiver := httptest.NewServer(taken)
	defer receiver.Close()
	exporter := otlp.New(receiver.URL, "parley", slog.New(slog.DiscardHandler))
	w := &worker{script: speak(t, "one two", 40*time.Millisecond)}
	s := start(t, w, func(c *Config) { c.Traces = exporter })
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	response := s.open(t.Context(), "POST", "/v1/chat/completions", chatBody(""), "Traceparent", parent)
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	for len(s.lives()) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	exporter.Run(ctx)
	taken.mu.Lock()
	defer taken.mu.Unlock()
	if len(taken.spans) < 3 {
		t.Fatalf("spans %+v", taken.spans)
	}
	root := taken.spans[0]
	if root.TraceID != parent[3:35] || root.ParentSpanID != parent[36:52] || root.Kind != 2 ||
		root.Name != "chat "+modelID {
		t.Errorf("the first span is %+v", root)
	}
	below := map[string][]string{}
	ids := map[string]string{}
	for _, span := range taken.spans {
		ids[span.SpanID] = span.Name
	}
	for _, span := range taken.spans[1:] {
		below[ids[span.ParentSpanID]] = append(below[ids[span.ParentSpanID]], span.Name)
		if span.TraceID != root.TraceID || span.EndTimeUnixNano < span.StartTimeUnixNano {
			t.Errorf("%+v does not belong to %+v", span, root)
		}
	}
	if got := strings.Join(below["worker: ask"],
		", "); got != "worker: hand to the engine, engine: wait for compute, engine: prefill, engine: decode" {
		t.Errorf("below the worker are %s", got)
	}
	if got := strings.Join(below[root.Name], ", "); !strings.HasPrefix(got,
		"worker: ask, gateway: read and render, ") || !strings.Contains(got, "router: choose a worker") ||
		strings.Contains(got, "engine") {
		t.Errorf("below the call are %s", got)
	}
	told := map[string]any{}
	for _, a := range root.Attributes {
		told[a.Key] = a.Value
	}
	for _, key := range []string{"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.usage.input_tokens",
		"gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons"} {
		if told[key] == nil {
			t.Errorf("there is no %s in %v", key, told)
		}
	}
	if l := s.lives()[0]; l.TraceID != root.TraceID {
		t.Errorf("the life names the trace %q", l.TraceID)
	}
}

// lives are the requests that have ended.
func (s *server) lives() []*admin.RequestRecord {
	return s.gateway.records.Requests(&admin.Filter{}, "", 10).Requests
}
