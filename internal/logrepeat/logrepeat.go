// Package logrepeat keeps a failure that repeats from filling the log.
package logrepeat

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// keysMax bounds the failures that are remembered.
const keysMax = 1024

// A limiter is shared by all handlers that are derived from one.
type limiter struct {
	every time.Duration

	mu   sync.Mutex
	seen map[key]*repeat
}

// A key names a failure: the same message about the same error.
type key struct{ message, err string }

type repeat struct {
	written    time.Time
	suppressed int
}

type handler struct {
	slog.Handler
	limiter *limiter
}

// Limit returns a handler that writes a warning or an error at most once in
// every, as long as its message and its "error" attribute stay the same. The
// next one that is written says in the attribute "suppressed" how many were
// left out. Records without an "error" attribute are all written, and so are
// request lines, each of which is about another request.
func Limit(h slog.Handler, every time.Duration) slog.Handler {
	return &handler{h, &limiter{every: every, seen: map[key]*repeat{}}}
}

// Handle writes the record, or counts it as suppressed.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if k, ok := keyOf(&r); ok {
		suppressed, write := h.limiter.admit(k, r.Time)
		if !write {
			return nil
		}
		if suppressed > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("suppressed", suppressed))
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with more attributes and the same limiter.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.limiter}
}

// WithGroup returns a handler with a group and the same limiter.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.limiter}
}

func keyOf(r *slog.Record) (k key, ok bool) {
	if r.Level < slog.LevelWarn || r.Message == "request" {
		return k, false
	}
	r.Attrs(func(a slog.Attr) bool {
		if ok = a.Key == "error"; ok {
			k = key{r.Message, a.Value.String()}
		}
		return !ok
	})
	return k, ok
}

// admit reports whether a record of the key is due, and how many of its kind
// were suppressed since the last one.
func (l *limiter) admit(k key, now time.Time) (suppressed int, write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.seen[k]
	if one != nil && now.Sub(one.written) < l.every {
		one.suppressed++
		return 0, false
	}
	if one == nil {
		l.forget(now)
		one = &repeat{}
		l.seen[k] = one
	}
	suppressed, one.suppressed, one.written = one.suppressed, 0, now
	return suppressed, true
}

// forget makes room for another key: what is old goes, or everything if
// nothing is.
func (l *limiter) forget(now time.Time) {
	if len(l.seen) < keysMax {
		return
	}
	for k, one := range l.seen {
		if now.Sub(one.written) >= l.every {
			delete(l.seen, k)
		}
	}
	if len(l.seen) >= keysMax {
		clear(l.seen)
	}
}
