package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/bench/llamacpp"
)

// TestReportsOfOneDayAreAllKept keeps three: a comparison takes hours.
func TestReportsOfOneDayAreAllKept(t *testing.T) {
	f := &cpuFlags{keep: filepath.Join(t.TempDir(), "kept")}
	for _, program := range []string{"first", "second", "third"} {
		if err := f.keepReport(
			&llamacpp.Report{Program: program, Started: time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(f.keep, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	want := []string{"2026-11-16-peer-2.json", "2026-11-16-peer-2.txt", "2026-11-16-peer-3.json",
		"2026-11-16-peer-3.txt", "2026-11-16-peer.json", "2026-11-16-peer.txt"}
	if !slices.Equal(names, want) {
		t.Errorf("kept %v, want %v", names, want)
	}
	if text, err := os.ReadFile(filepath.Join(f.keep, "2026-11-16-peer.txt")); err != nil ||
		!strings.HasPrefix(string(text), "# first ") {
		t.Errorf("the first report is %.40q (%v)", text, err)
	}
}
