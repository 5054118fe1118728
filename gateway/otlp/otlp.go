// Package otlp sends traces to an OpenTelemetry collector, by OTLP over HTTP in
// JSON. It is hand-written because the exporter of OpenTelemetry's own library
// needs modules that cannot be had where this is built, and because a request's
// spans are known at once, when it has ended: there is nothing to keep open.
//
// Nothing here may hold up a request. Spans that find the queue full are dropped
// and counted.
package otlp

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// A Span is a part of a request's life, as a trace shows it.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte
	Name       string
	// Server spans answer a request, Client spans send one; the others are internal.
	Server, Client bool
	Start, End     time.Time
	Attributes     map[string]any // strings, lists of them, ints and bools
	// Error says what went wrong; empty if nothing did.
	Error string
}

// An Exporter sends spans in batches. It is safe for concurrent use.
type Exporter struct {
	endpoint string
	service  string
	client   *http.Client
	log      *slog.Logger
	spans    chan Span
	dropped  atomic.Int64
}

const (
	spansWaiting = 4096
	batchSpans   = 512
	batchEvery   = time.Second
	sendMax      = 10 * time.Second
)

// New returns an exporter of a service's spans to a collector, such as
// http://127.0.0.1:4318. It sends once [Exporter.Run] is called.
func New(endpoint, service string, log *slog.Logger) *Exporter {
	return &Exporter{
		endpoint: endpoint + "/v1/traces",
		service:  service,
		client:   &http.Client{Timeout: sendMax},
		log:      log,
		spans:    make(chan Span, spansWaiting),
	}
}

// Export queues spans. It never waits.
func (e *Exporter) Export(spans []Span) {
	for _, s := range spans {
		select {
		case e.spans <- s:
		default:
			e.dropped.Add(1)
		}
	}
}

// Run sends what is queued until ctx ends, and then the rest. A batch that is on
// its way when ctx ends arrives, too.
func (e *Exporter) Run(ctx context.Context) {
	sending := context.WithoutCancel(ctx)
	tick := time.NewTicker(batchEvery)
	defer tick.Stop()
	var batch []Span
	for {
		select {
		case s := <-e.spans:
			if batch = append(batch, s); len(batch) < batchSpans {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for len(e.spans) > 0 {
				batch = append(batch, <-e.spans)
			}
			e.send(sending, batch)
			return
		}
		e.send(sending, batch)
		batch = batch[:0]
	}
}

// send posts a batch. What a collector does not take is lost: traces are not a
// ledger.
func (e *Exporter) send(ctx context.Context, batch []Span) {
	if len(batch) == 0 {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(Encode(e.service, batch)))
	if err == nil {
		r.Header.Set("Content-Type", "application/json")
		err = e.post(r)
	}
	if err != nil {
		e.log.Warn("trace export failed", "spans", len(batch), "dropped", e.dropped.Load(), "error", err)
	}
}

func (e *Exporter) post(r *http.Request) error {
	response, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the collector answered %s", response.Status)
	}
	return nil
}

type (
	object map[string]any
	list   []any
)

// Encode writes the spans of a service as OTLP in JSON: ids in hex, times in
// nanoseconds as text.
func Encode(service string, spans []Span) []byte {
	var told list
	for i := range spans {
		told = append(told, spans[i].object())
	}
	body, _ := json.Marshal(object{"resourceSpans": list{object{ // strings, numbers and bools
		"resource":   object{"attributes": attributes(map[string]any{"service.name": service})},
		"scopeSpans": list{object{"scope": object{"name": "parley"}, "spans": told}},
	}}})
	return body
}

func (s *Span) object() object {
	kind, status := 1, object{}
	switch {
	case s.Server:
		kind = 2
	case s.Client:
		kind = 3
	}
	if s.Error != "" {
		status = object{"code": 2, "message": s.Error}
	}
	o := object{"traceId": hex.EncodeToString(s.Trace[:]), "spanId": hex.EncodeToString(s.ID[:]), "name": s.Name,
		"kind": kind, "status": status,
		"startTimeUnixNano": strconv.FormatInt(s.Start.UnixNano(), 10),
		"endTimeUnixNano":   strconv.FormatInt(s.End.UnixNano(), 10), "attributes": attributes(s.Attributes)}
	if s.Parent != [8]byte{} {
		o["parentSpanId"] = hex.EncodeToString(s.Parent[:])
	}
	return o
}

func attributes(of map[string]any) list {
	told := list{}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		told = append(told, object{"key": key, "value": valueOf(of[key])})
	}
	return told
}

func valueOf(v any) object {
	switch v := v.(type) {
	case int:
		return object{"intValue": strconv.Itoa(v)}
	case bool:
		return object{"boolValue": v}
	case []string:
		values := list{}
		for _, text := range v {
			values = append(values, valueOf(text))
		}
		return object{"arrayValue": object{"values": values}}
	}
	return object{"stringValue": fmt.Sprint(v)}
}
