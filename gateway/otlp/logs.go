package otlp

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strconv"
	"time"
)

// Logs sends log records in batches. It is safe for concurrent use.
type Logs struct{ *sender[logRecord] }

// A logRecord is a line of the log. Attributes of groups have the group before their name.
type logRecord struct {
	at          time.Time
	level       slog.Level
	text        string
	trace, span string
	attributes  map[string]any
}

// NewLogs returns an exporter of a service's log to a collector, such as
// http://127.0.0.1:4318. It sends once Run is called. What goes wrong with that is written to
// log, which must not lead back here.
func NewLogs(endpoint, service string, log *slog.Logger) *Logs {
	return &Logs{newSender(endpoint+"/v1/logs", "records", log,
		func(batch []logRecord) []byte { return encodeLogs(service, batch) })}
}

// TraceAttribute and SpanAttribute are the attributes of a log line that become its place in a trace.
const (
	TraceAttribute = "trace_id"
	SpanAttribute  = "span_id"
)

// Beside returns a handler that writes to h and exports what it writes.
func (e *Logs) Beside(h slog.Handler) slog.Handler { return &logHandler{Handler: h, logs: e} }

// A logHandler exports the records that its handler writes.
type logHandler struct {
	slog.Handler
	logs *Logs
	// given has the attributes of the logger, group what comes before the names of further ones.
	given logRecord
	group string
}

// Handle writes the record and queues it.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	line := h.given.clone()
	line.at, line.level, line.text = r.Time, r.Level, r.Message
	r.Attrs(func(a slog.Attr) bool {
		line.add(h.group, a)
		return true
	})
	h.logs.put(line)
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &logHandler{Handler: h.Handler.WithAttrs(attrs), logs: h.logs, given: h.given.clone(), group: h.group}
	for _, a := range attrs {
		next.given.add(h.group, a)
	}
	return next
}

// WithGroup returns a handler whose further attributes are in a group.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{Handler: h.Handler.WithGroup(name), logs: h.logs, given: h.given, group: h.group + name + "."}
}

// clone returns a copy whose attributes may be changed.
func (l logRecord) clone() logRecord {
	if l.attributes = maps.Clone(l.attributes); l.attributes == nil {
		l.attributes = map[string]any{}
	}
	return l
}

// add notes an attribute, in OpenTelemetry's types.
func (l *logRecord) add(group string, a slog.Attr) {
	if a.Equal(slog.Attr{}) { // which handlers leave out
		return
	}
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, inner := range v.Group() {
			l.add(group, inner)
		}
		return
	case slog.KindInt64:
		l.attributes[group+a.Key] = int(v.Int64())
	case slog.KindBool:
		l.attributes[group+a.Key] = v.Bool()
	case slog.KindFloat64:
		l.attributes[group+a.Key] = v.Float64()
	case slog.KindDuration:
		l.attributes[group+a.Key] = v.Duration().Seconds()
	default:
		l.attributes[group+a.Key] = v.String()
	}
	switch group + a.Key {
	case TraceAttribute:
		l.trace = v.String()
		delete(l.attributes, TraceAttribute)
	case SpanAttribute:
		l.span = v.String()
		delete(l.attributes, SpanAttribute)
	}
}

// encodeLogs writes the log of a service as OTLP in JSON.
func encodeLogs(service string, records []logRecord) []byte {
	var lines list
	for i := range records {
		lines = append(lines, records[i].object())
	}
	body, _ := json.Marshal(object{"resourceLogs": list{object{ // strings, numbers and bools
		"resource":  object{"attributes": attributes(map[string]any{"service.name": service})},
		"scopeLogs": list{object{"scope": object{"name": "parley"}, "logRecords": lines}},
	}}})
	return body
}

func (l *logRecord) object() object {
	o := object{
		"timeUnixNano":         strconv.FormatInt(l.at.UnixNano(), 10),
		"observedTimeUnixNano": strconv.FormatInt(l.at.UnixNano(), 10),
		"severityNumber":       severity(l.level),
		"severityText":         l.level.String(),
		"body":                 valueOf(l.text),
		"attributes":           attributes(l.attributes),
	}
	if l.trace != "" {
		o["traceId"] = l.trace
	}
	if l.span != "" {
		o["spanId"] = l.span
	}
	return o
}

// severity is the number that OpenTelemetry has for a level: 5, 9, 13 and 17 for debug, info,
// warnings and errors, which are four apart in both.
func severity(level slog.Level) int { return min(max(int(level)+9, 1), 24) }
