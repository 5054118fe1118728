package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/bench/ablation"
)

// Eviction is the mechanism that is measured without a clock, so that the
// command can be tested whole: what it prints, keeps and draws.
func TestMechanismsPrintKeepAndDraw(t *testing.T) {
	dir := t.TempDir()
	picture := filepath.Join(dir, "mechanisms.svg")
	text, err := ran(t, "mechanisms", "--only", "eviction", "--quick", "--keep", filepath.Join(dir, "kept"), "--chart",
		picture)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"met  eviction", "KVCache in the Wild", "1.05x", "Floors met: 1 of 1.", "processors",
		"quick"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text has no %q:\n%s", want, text)
		}
	}
	kept, err := filepath.Glob(filepath.Join(dir, "kept", "*-mechanisms.*"))
	if err != nil || len(kept) != 2 {
		t.Fatalf("kept %v, %v", kept, err)
	}
	document, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	var report ablation.Report
	if err := json.Unmarshal(document, &report); err != nil || report.Schema != ablation.Schema || !report.Quick ||
		len(report.Results) != 1 || !report.Results[0].Met {
		t.Errorf("%v: %s", err, document)
	}
	svg, err := os.ReadFile(picture)
	if err != nil || !strings.Contains(string(svg), "eviction: prompt tokens found") {
		t.Errorf("%v: %s", err, svg)
	}
}

// On a trace that asks the same all the time no policy is better than another.
func TestMechanismsFailBelowAFloor(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "same.jsonl")
	line := `{"timestamp": 0, "input_length": 1536, "output_length": 4, "hash_ids": [0, 1, 2]}` + "\n"
	if err := os.WriteFile(trace, []byte(strings.Repeat(line, 24)), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := ran(t, "mechanisms", "--only", "eviction", "--json", "--trace", trace)
	if err == nil || !strings.Contains(err.Error(), "below the floor: eviction") || errors.Is(err, errUsage) {
		t.Errorf("%v", err)
	}
	var report ablation.Report
	if err := json.Unmarshal([]byte(text), &report); err != nil || report.Results[0].Met ||
		report.Results[0].Gain != 1 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestMechanismsRefuseWhatTheyDoNotKnow(t *testing.T) {
	for _, args := range [][]string{{"--only", "turbo"}, {"extra"}, {"--quickly"}} {
		if _, err := ran(t, append([]string{"mechanisms"}, args...)...); err == nil {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := ran(t, "mechanisms", "--trace", "nowhere.jsonl"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
