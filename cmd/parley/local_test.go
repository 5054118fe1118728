package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLocalWorkersAreKnownExactly has a pool of engines in this process, one for
// each model: what their caches hold is known from their events.
func TestLocalWorkersAreKnownExactly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path,
		[]byte(
			"model: [polly-mini, small=polly-mini]\npools: [{name: here, purpose: any, workers: [{in_process: "+
				"true}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	front := startServer(t, "--config", path, "--log-level", "warn")
	go func() {
		for range front.lines {
		}
	}()
	c := &crew{t: t, front: front}
	c.ready(2)
	if _, err := hearAll(t.Context(), front.url, wishes()[0]); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list := c.standings()
		busy, idle := list[0], list[1]
		if busy.Name != "local/here/polly-mini" || idle.Name != "local/here/small" || busy.Index != "exact" ||
			idle.Index != "exact" {
			t.Fatalf("%+v", list)
		}
		if busy.Blocks > 4 && idle.Blocks == 0 && busy.CapacityTokens > 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", list)
		}
	}
}
