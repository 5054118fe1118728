package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
)

// A logCatcher is a collector that keeps the spans and log records that it is sent.
type logCatcher struct {
	mu      sync.Mutex
	records []map[string]any
	spans   string
}

func (c *logCatcher) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/v1/traces" {
		c.spans += string(text)
		return
	}
	var body struct {
		ResourceLogs []struct {
			ScopeLogs []struct{ LogRecords []map[string]any }
		}
	}
	if json.Unmarshal(text, &body) == nil {
		c.records = append(c.records, body.ResourceLogs[0].ScopeLogs[0].LogRecords...)
	}
}

// find returns the record of a text, nil if there is none.
func (c *logCatcher) find(text string) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		if body, _ := json.Marshal(r["body"]); string(body) == `{"stringValue":"`+text+`"}` {
			return r
		}
	}
	return nil
}

// TestLogsToACollector has the real server send its log to a collector: the line of a request is in the trace of the
// client and names the span that the collector got, and what is written while the server ends arrives, too.
func TestLogsToACollector(t *testing.T) {
	var c logCatcher
	receiver := httptest.NewServer(&c)
	defer receiver.Close()
	s := startServer(t, "--model", "polly-mini", "--otlp-endpoint", receiver.URL, "--otlp-logs", "on",
		"--titles", "off")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(
		`{"model":"polly-mini","max_tokens":2,"messages":[{"role":"user","content":"xylophones of Zanzibar"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	bodyOf(t, resp)
	until(t, "the line of the request arrives", func() bool { return c.find("request") != nil })
	line := c.find("request")
	span, _ := line["spanId"].(string)
	if line["traceId"] != "0af7651916cd43dd8448eb211c80319c" || len(span) != 16 {
		t.Errorf("the line is %v", line)
	}
	until(t, "the span arrives", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return strings.Contains(c.spans, `"spanId":"`+span+`"`)
	})
	if metrics := string(s.metrics(t)); !strings.Contains(metrics, `parley_otlp_dropped_total{signal="logs"} 0`) ||
		!strings.Contains(metrics, `parley_otlp_dropped_total{signal="traces"} 0`) {
		t.Error("the metrics do not count what was dropped")
	}
	post(t, s.url+"/v1/chat/completions", `{"model":"no such model"}`) // its line may wait when the server ends
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range s.lines {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all, _ := json.Marshal(c.records)
	if strings.Count(string(all), `{"stringValue":"request"}`) != 2 || strings.Contains(string(all), "Zanzibar") {
		t.Errorf("at the end there are %d records: %s", len(c.records), all)
	}
}
