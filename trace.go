package parley

import (
	"context"
	"encoding/hex"
	"strings"
)

// A Trace identifies a span in a distributed trace, like the header traceparent of W3C
// Trace Context. The zero value is not a trace.
type Trace struct {
	ID   [16]byte
	Span [8]byte
	// Sampled traces are kept.
	Sampled bool
}

// ParseTrace reads a traceparent header; ok is false if it is not one.
func ParseTrace(header string) (t Trace, ok bool) {
	parts := strings.Split(header, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 ||
		len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 {
		return Trace{}, false
	}
	var version, flags [1]byte
	for i, to := range [][]byte{version[:], t.ID[:], t.Span[:], flags[:]} {
		if _, err := hex.Decode(to, []byte(parts[i])); err != nil || strings.ToLower(parts[i]) != parts[i] {
			return Trace{}, false
		}
	}
	t.Sampled = flags[0]&1 == 1
	return t, t.ID != [16]byte{} && t.Span != [8]byte{}
}

// String returns the header.
func (t Trace) String() string {
	flags := "00"
	if t.Sampled {
		flags = "01"
	}
	return "00-" + hex.EncodeToString(t.ID[:]) + "-" + hex.EncodeToString(t.Span[:]) + "-" + flags
}

type traceKey struct{}

// WithTrace returns a context in which what is done belongs to a trace.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of a context; ok is false if it has none.
func TraceOf(ctx context.Context) (t Trace, ok bool) {
	t, ok = ctx.Value(traceKey{}).(Trace)
	return t, ok
}
