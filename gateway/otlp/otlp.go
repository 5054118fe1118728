// Package otlp sends traces and logs to an OpenTelemetry collector, by OTLP over HTTP in
// JSON. It is hand-written because the exporter of OpenTelemetry's own library
// needs modules that cannot be had where this is built, and because a request's
// spans are known at once, when it has ended: there is nothing to keep open.
//
// Nothing here may hold up a request. Spans and log records that find the queue full
// are dropped and counted.
package otlp

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
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
	Attributes     map[string]any // strings, lists of them, ints, floats and bools
	// Error says what went wrong; empty if nothing did.
	Error string
}

// An Exporter sends spans in batches. It is safe for concurrent use.
type Exporter struct{ *sender[Span] }

// New returns an exporter of a service's spans to a collector, such as
// http://127.0.0.1:4318. It sends once [Exporter.Run] is called.
func New(endpoint, service string, log *slog.Logger) *Exporter {
	return &Exporter{newSender(endpoint+"/v1/traces", "spans", log,
		func(batch []Span) []byte { return Encode(service, batch) })}
}

// Export queues spans. It never waits.
func (e *Exporter) Export(spans []Span) {
	for _, s := range spans {
		e.put(s)
	}
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
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) { // which JSON has no numbers for
			return object{"stringValue": fmt.Sprint(v)}
		}
		return object{"doubleValue": v}
	case []string:
		values := list{}
		for _, text := range v {
			values = append(values, valueOf(text))
		}
		return object{"arrayValue": object{"values": values}}
	}
	return object{"stringValue": fmt.Sprint(v)}
}
