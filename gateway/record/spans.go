package record

import (
	"crypto/rand"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/otlp"
)

// spansOf returns a request as a tree: below the call its own stages and a span for
// each worker that was asked, and below that what is known of the worker. A worker
// that sends spans itself has those below its own, so that nothing is told twice.
func spansOf(t *trace, l *admin.RequestRecord, attempts []parley.Attempt, elapsed time.Duration) []otlp.Span {
	spans := []otlp.Span{{
		Trace:      t.here.ID,
		ID:         t.here.Span,
		Parent:     t.parent,
		Name:       spanName(l),
		Server:     true,
		Start:      l.Started,
		End:        l.Started.Add(elapsed),
		Attributes: spanAttributes(l),
		Error:      spanError(l),
	}}
	asked := make([]otlp.Span, len(attempts))
	for i := range attempts {
		asked[i] = attemptSpan(t, &attempts[i], spans[0].End)
	}
	if len(attempts) == 0 {
		asked = inProcessSpan(t, l)
	}
	spans = append(spans, asked...)
	for i := range l.Stages {
		s := &l.Stages[i]
		parent := t.here.Span
		if s.Where == "worker" || s.Where == "engine" {
			n := max(s.Attempt-1, 0)
			if n < len(attempts) && tellsItself(&attempts[n]) {
				continue
			}
			parent = asked[n].ID
		}
		spans = append(spans, stageSpan(t, l, s, parent))
	}
	return spans
}

// tellsItself reports whether a worker sends what it does to the collector.
func tellsItself(l *parley.Attempt) bool { return l.Timings != nil && l.Timings.Traced }

func stageSpan(t *trace, l *admin.RequestRecord, s *admin.Stage, parent [8]byte) otlp.Span {
	start := l.Started.Add(fromMillis(s.StartMs))
	span := otlp.Span{
		Trace:      t.here.ID,
		ID:         newSpanID(),
		Parent:     parent,
		Name:       s.Where + ": " + s.Name,
		Start:      start,
		End:        start.Add(fromMillis(s.Ms)),
		Attributes: map[string]any{"parley.stage": s.Where},
	}
	if s.Note != "" {
		span.Attributes["parley.note"] = s.Note
	}
	return span
}

// attemptSpan is a worker that was asked. Its place in the trace is what the worker
// was told to be below.
func attemptSpan(t *trace, l *parley.Attempt, ended time.Time) otlp.Span {
	s := otlp.Span{
		Trace:  t.here.ID,
		ID:     l.Span,
		Parent: t.here.Span,
		Name:   askSpan,
		Client: l.Kind != admin.InProcess,
		Start:  l.Sent,
		End:    ended,
		Attributes: map[string]any{"parley.stage": "worker", "parley.worker": l.Worker, "parley.pool": l.Pool,
			"parley.worker_kind": l.Kind, "parley.route_reason": l.Reason,
			"parley.end": l.End, "gen_ai.usage.output_tokens": l.Tokens},
	}
	if !l.Ended.IsZero() {
		s.End = l.Ended
	}
	switch l.End {
	case "failed", "lost", "refused":
		s.Error = l.Why
	}
	return s
}

// askSpan is what the span of a worker that is asked is called.
const askSpan = "worker: ask"

// inProcessSpan holds the stages of the one engine where there is no choice; none
// if it was not asked.
func inProcessSpan(t *trace, l *admin.RequestRecord) []otlp.Span {
	var span *otlp.Span
	for i := range l.Stages {
		s := &l.Stages[i]
		if s.Where != "worker" && s.Where != "engine" {
			continue
		}
		start := l.Started.Add(fromMillis(s.StartMs))
		if span == nil {
			span = &otlp.Span{
				Trace:  t.here.ID,
				ID:     newSpanID(),
				Parent: t.here.Span,
				Name:   askSpan,
				Start:  start,
				Attributes: map[string]any{"parley.stage": "worker", "parley.worker": l.Worker,
					"parley.worker_kind": admin.InProcess},
			}
		}
		span.End = start.Add(fromMillis(s.Ms))
	}
	if span == nil {
		return nil
	}
	return []otlp.Span{*span}
}

func newSpanID() (id [8]byte) {
	rand.Read(id[:]) // never fails
	return id
}

func fromMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
