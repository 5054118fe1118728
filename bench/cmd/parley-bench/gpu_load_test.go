package main

import (
	"testing"

	"parley/bench/gpu"
)

func TestParseLoad(t *testing.T) {
	for text, want := range map[string]gpu.Load{
		"p8000":         {Prompt: 8000},
		"d32x512":       {Batch: 32, Context: 512},
		"s4x64":         {Batch: 4, Context: 64, Special: true},
		"d32x2560/2048": {Batch: 32, Context: 2560, Shared: 2048},
		"s4x64/64":      {Batch: 4, Context: 64, Shared: 64, Special: true},
	} {
		if got, err := parseLoad(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x4x64", "p", "p0", "d4", "d0x64", "d4x-1", "d4x64/", "d4x64/x", "d4x64/80",
		"d4x64/-16"} {
		if got, err := parseLoad(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}
