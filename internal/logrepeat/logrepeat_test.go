package logrepeat

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestRepeatsAreCounted(t *testing.T) {
	var out bytes.Buffer
	h := Limit(slog.NewTextHandler(&out, nil), time.Minute).WithAttrs([]slog.Attr{slog.String("server", "a")})
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	log := func(after time.Duration, level slog.Level, message string, attrs ...slog.Attr) {
		r := slog.NewRecord(start.Add(after), level, message, 0)
		r.AddAttrs(attrs...)
		if err := h.Handle(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
	full, gone := slog.String("error", "full"), slog.String("error", "gone")
	for i := range 240 { // four times a second for a minute
		log(time.Duration(i)*250*time.Millisecond, slog.LevelError, "not stored", slog.Int("id", i), full)
	}
	log(30*time.Second, slog.LevelError, "not stored", gone)
	log(31*time.Second, slog.LevelError, "request", full)
	log(32*time.Second, slog.LevelError, "request", full)
	log(33*time.Second, slog.LevelInfo, "not stored", full)
	log(61*time.Second, slog.LevelError, "not stored", full)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines, want 6:\n%s", len(lines), out.String())
	}
	if last := lines[5]; !strings.Contains(last, "suppressed=239") || !strings.Contains(last, "server=a") {
		t.Errorf("the last line is %s", last)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	h, ok := Limit(slog.DiscardHandler, time.Minute).(*handler)
	if !ok {
		t.Fatal("Limit returns another handler")
	}
	now := time.Now()
	for i := range 3 * keysMax {
		h.limiter.admit(key{"m", fmt.Sprint(i)}, now)
	}
	if n := len(h.limiter.seen); n > keysMax {
		t.Errorf("%d failures are remembered, at most %d may be", n, keysMax)
	}
}
