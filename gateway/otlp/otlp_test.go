package otlp

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sent is as much of a batch as is looked at.
type sent struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []attribute }
		ScopeSpans []struct {
			Spans []struct {
				TraceID, SpanID, ParentSpanID, Name string
				Attributes                          []attribute
				Status                              struct{ Code int }
			}
		}
	}
}

type attribute struct {
	Key   string
	Value map[string]any
}

// TestExportFromManySides has many requests end at once while batches are sent:
// each span reaches the collector once, none is altered.
func TestExportFromManySides(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body sent
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, span := range body.ResourceSpans[0].ScopeSpans[0].Spans {
			heard[span.Name+span.SpanID]++
		}
	}))
	defer receiver.Close()
	e := New(receiver.URL, "parley", slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { e.Run(ctx); close(over) }()
	const sides, each = 16, 100
	var senders sync.WaitGroup
	for i := range sides {
		senders.Go(func() {
			for j := range each {
				e.Export([]Span{{Name: "a", ID: [8]byte{byte(i), byte(j), 1}, Attributes: map[string]any{"n": j}},
					{Name: "b", ID: [8]byte{byte(i), byte(j), 2}}})
			}
		})
	}
	senders.Wait()
	end()
	<-over
	if len(heard) != 2*sides*each || e.dropped.Load() != 0 {
		t.Errorf("%d spans came, %d were dropped", len(heard), e.dropped.Load())
	}
	for name, n := range heard {
		if n != 1 {
			t.Errorf("%s came %d times", name, n)
		}
	}
}

// TestExportNeverWaits has a collector that does not answer: what does not fit is
// dropped and counted.
func TestExportNeverWaits(t *testing.T) {
	e := New("http://127.0.0.1:1", "parley", slog.New(slog.DiscardHandler))
	var done atomic.Bool
	go func() { e.Export(make([]Span, queueMax+100)); done.Store(true) }()
	for until := time.Now().Add(10 * time.Second); !done.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it waits")
		}
	}
	if n := e.dropped.Load(); n != 100 {
		t.Errorf("%d were dropped", n)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	e.Run(ctx) // nobody listens: it ends nevertheless
}

func TestEncode(t *testing.T) {
	at := time.Unix(1, 5)
	var got sent
	body := Encode("parley-worker",
		[]Span{{Trace: [16]byte{1}, ID: [8]byte{2}, Parent: [8]byte{3}, Name: "x", Start: at, End: at, Error: "broken",
			Attributes: map[string]any{"s": "v", "n": 7, "b": true, "l": []string{"stop"}}}})
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	if a := got.ResourceSpans[0].Resource.Attributes[0]; a.Key != "service.name" ||
		a.Value["stringValue"] != "parley-worker" {
		t.Errorf("resource %+v", a)
	}
	span := got.ResourceSpans[0].ScopeSpans[0].Spans[0]
	if span.TraceID != "01000000000000000000000000000000" || span.SpanID != "0200000000000000" ||
		span.ParentSpanID != "0300000000000000" || span.Status.Code != 2 {
		t.Errorf("span %+v", span)
	}
	text, _ := json.Marshal(span.Attributes) // maps and strings
	const want = `[{"Key":"b","Value":{"boolValue":true}},{"Key":"l","Value":{"arrayValue":{"values":[{"stringValue":"stop"}]}}},{"Key":"n","Value":{"intValue":"7"}},{"Key":"s","Value":{"stringValue":"v"}}]`
	if string(text) != want {
		t.Errorf("attributes %s", text)
	}
}
