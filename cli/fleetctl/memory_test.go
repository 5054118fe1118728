package fleetctl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/fleet/scale"
)

// TestScalerMemory keeps what a scaler has learned in a file, and passes over one that is damaged.
func TestScalerMemory(t *testing.T) {
	newScaler := func(rate float64) *scale.Scaler {
		s, err := scale.New(scale.Config{Max: 3, Rate: rate})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	m := &scalerMemory{path: filepath.Join(t.TempDir(), "scaler.json")}
	var told bytes.Buffer
	m.recall(newScaler(1), &told)
	now := time.Unix(1_000_000_000, 0)
	if err := m.save(t.Context(), newScaler(7), now, false); err != nil || told.Len() > 0 {
		t.Fatal(err, told.String())
	}
	if err := m.save(t.Context(), newScaler(9), now.Add(time.Second), false); err != nil {
		t.Fatal(err)
	}
	next := newScaler(1)
	m.recall(next, &told)
	if got := next.Memory().Serve; got != 7 || told.Len() > 0 {
		t.Errorf("a worker serves %g; %s", got, told.String())
	}
	if err := m.save(t.Context(), newScaler(9), now, true); err != nil {
		t.Fatal(err)
	}
	if m.recall(next, &told); next.Memory().Serve != 9 {
		t.Errorf("at the end %g is written", next.Memory().Serve)
	}
	if err := os.WriteFile(m.path, []byte(`{"version": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	m.recall(next, &told)
	if !strings.Contains(told.String(), "begins without its memory") || next.Memory().Serve != 9 {
		t.Errorf("of a file of another version it says %q", told.String())
	}
}
