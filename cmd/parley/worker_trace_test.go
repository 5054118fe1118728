package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
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
	StartTimeUnixNano                   string
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

// tree writes the spans of a trace below a span, each with its service, sorted.
func (c *spanCatcher) tree(trace, below, indent string) (lines []string) {
	c.mu.Lock()
	spans := slices.Clone(c.spans)
	c.mu.Unlock()
	slices.SortStableFunc(spans, func(a, b caughtSpan) int {
		return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range spans {
		if s.TraceID == trace && s.ParentSpanID == below {
			lines = append(lines, indent+s.Service+" "+s.Name)
			lines = append(lines, c.tree(trace, s.SpanID, indent+"  ")...)
		}
	}
	return lines
}

// has reports whether all services have sent their part of a trace.
func (c *spanCatcher) has(trace string, names ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if !slices.ContainsFunc(c.spans, func(s caughtSpan) bool {
			return s.TraceID == trace && strings.HasPrefix(s.Name, name)
		}) {
			return false
		}
	}
	return true
}

// count returns how many spans of a trace there are.
func (c *spanCatcher) count(trace string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.TraceID == trace {
			n++
		}
	}
	return n
}

const (
	tracedBy   = "0af7651916cd43dd8448eb211c80319c"
	tracedSpan = "b7ad6b7169203331"
)

// askTraced asks for a short answer within a trace of the client.
func askTraced(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions",
		strings.NewReader(`{"max_tokens":8,"ignore_eos":true,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", "00-"+tracedBy+"-"+tracedSpan+"-01")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
}

// TestTracesAcrossProcesses follows one trace from a client through the gateway's
// process into the worker's and its engine. It is one tree, in which every stage is
// told once: by the worker where that sends spans, and otherwise by the gateway.
func TestTracesAcrossProcesses(t *testing.T) {
	for _, c := range []struct {
		name           string
		traced, inside bool
	}{{name: "by the worker", traced: true}, {name: "by the gateway"}, {name: "in one process", inside: true}} {
		t.Run(c.name, func(t *testing.T) {
			taken := &spanCatcher{}
			receiver := httptest.NewServer(taken)
			defer receiver.Close()
			args := []string{"--model", "polly-mini", "--otlp-endpoint", receiver.URL, "--log-level", "error",
				"--speculate", "off"}
			var behind *workerProcess
			if !c.inside {
				worker := []string{"--speculate", "off"}
				if c.traced {
					worker = append(worker, "--otlp-endpoint", receiver.URL)
				}
				behind = startWorker(t, worker...)
				args = append(args, "--worker", behind.url)
			}
			s := startServer(t, args...)
			askTraced(t, s.url)
			wanted := []string{"chat ", "worker: ask", "engine: decode"}
			for until := time.Now().Add(time.Minute); !taken.has(tracedBy,
				wanted...); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(until) {
					t.Fatalf("only these came: %+v", taken.spans)
				}
			}
			endAll(t, s, behind) // who ends sends the rest: what is told twice would have come
			got := taken.tree(tracedBy, tracedSpan, "")
			if n := taken.count(tracedBy); n != len(got) {
				t.Errorf("%d spans, of which %d are below the client's: %+v", n, len(got), taken.spans)
			}
			if want := wantedTree(c.traced, c.inside); !slices.Equal(unhurried(got), want) {
				t.Errorf("the tree is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// endAll has a gateway and its worker, if there is one, end as they are meant to.
func endAll(t *testing.T, s *server, behind *workerProcess) {
	t.Helper()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for range s.lines { // it is read to its end before it is waited for
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if behind == nil {
		return
	}
	if err := behind.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-behind.done; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// unhurried leaves out stages that may take no time at all.
func unhurried(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return strings.HasSuffix(line, ": wait for a turn") || strings.HasSuffix(line, ": wait for compute") ||
			strings.HasSuffix(line, ": hand to the engine") || strings.HasSuffix(line, ": write")
	})
}

func wantedTree(traced, inside bool) []string {
	top := []string{"parley chat polly-mini", "  parley gateway: read and render", "  parley router: choose a worker",
		"  parley worker: ask"}
	switch {
	case inside:
		return append(top, "    parley engine: prefill", "    parley engine: decode")
	case traced:
		return append(top, "    parley-worker worker: answer", "      parley-worker worker: receive and admit",
			"      parley-worker engine: prefill", "      parley-worker engine: decode")
	}
	return append(top, "    parley worker: hop, there and back", "    parley worker: receive and admit",
		"    parley engine: prefill", "    parley engine: decode", "    parley worker: send the end")
}
