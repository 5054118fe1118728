package worker

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"parley"
)

// TestWakingTakesItsTime has a worker take longer to fall asleep and to wake than it
// may be silent: it loads gigabytes.
func TestWakingTakesItsTime(t *testing.T) {
	const silence = 50 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(4 * silence) }))
	defer s.Close()
	r := dial(t, Config{URL: s.URL, Kind: Parley, Silence: silence})
	for what, do := range map[string]func(context.Context) error{"sleep": r.Sleep, "wake": r.Wake} {
		if err := do(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	if err := r.Wake(ctx); parley.CodeOf(err) != parley.DeadlineExceeded {
		t.Errorf("in too short a time: %v", err)
	}
}
