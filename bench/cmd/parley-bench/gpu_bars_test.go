package main

import (
	"strings"
	"testing"
)

// TestMissedBarFails holds rates around the bars to the verdict.
func TestMissedBarFails(t *testing.T) {
	var measured []gpuMeasurement
	for _, b := range gpuBars {
		load, err := parseLoad(b.load)
		if err != nil {
			t.Fatal(err)
		}
		if b.than != "" {
			measured = append(measured, gpuMeasurement{b.than, load, 1000})
			b.least *= 1000
		}
		measured = append(measured, gpuMeasurement{b.model, load, b.least})
	}
	var out strings.Builder
	if err := verdict(&out, measured); err != nil || strings.Count(out.String(), ": met") != len(gpuBars) {
		t.Errorf("rates at the bars: %v\n%s", err, out.String())
	}
	measured[3].rate--
	out.Reset()
	if err := verdict(&out, measured); err == nil || strings.Count(out.String(), ": missed") != 1 {
		t.Errorf("one rate under its bar: %v\n%s", err, out.String())
	}
}

// TestBarsAreMeasured wants every bar among what the command measures without flags.
func TestBarsAreMeasured(t *testing.T) {
	f := &gpuFlags{}
	n := 0
	for _, model := range f.models() {
		n += len(f.loadsOf(model))
	}
	wanted := len(gpuBars)
	for _, b := range gpuBars {
		if b.than != "" {
			wanted++ // what it is compared with
		}
	}
	if n != wanted {
		t.Errorf("%d loads are measured, %d are needed for the bars", n, wanted)
	}
}
