package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/sim/cost"
)

// TestCalibrationShapes checks that the passes fit the limits that the model is loaded with.
func TestCalibrationShapes(t *testing.T) {
	for _, context := range []int{512, 2048} {
		shapes := calibrationShapes(context)
		if len(shapes) < 60 {
			t.Errorf("only %d passes are measured in a context of %d", len(shapes), context)
		}
		for _, shape := range shapes {
			step := stepOf(shape, context)
			if err := step.Validate(calibrateSeqs * context / 16); err != nil {
				t.Errorf("%+v: %v", shape, err)
			}
			p := passOf(step)
			if p.Rows != len(step.Tokens) || p.Rows > calibrateRows+calibrateSeqs || p.Sequences != len(step.Outputs) ||
				p.Sequences > calibrateSeqs+1 {
				t.Errorf("%+v is a pass of %+v", shape, p)
			}
		}
	}
}

func TestCalibrateUnknownModel(t *testing.T) {
	if _, err := measurePasses("nothing-like-this"); err == nil || !strings.Contains(err.Error(), "neither built in") {
		t.Errorf("an unknown model gives %v", err)
	}
}

// TestServedPasses reads passes from a log, and nothing else.
func TestServedPasses(t *testing.T) {
	log := `parley worker --addr 127.0.0.1:1
{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"worker ready"}
{"level":"DEBUG","msg":"pass computed","rows":16,"sequences":1,"read":0,"lookback":136,"took_ns":2000000,"gap_ns":0}
{"level":"DEBUG","msg":"pass computed","rows":1,"sequences":1,"read":16,"lookback":17,"took_ns":900000,"gap_ns":100000}
{"level":"WARN","msg":"request failed","error":"pass computed"}
{"level":"DEBUG","msg":"pass computed","rows":1,"sequ`
	got, err := readPasses(strings.NewReader(log))
	want := []cost.Sample{
		{Pass: cost.Pass{Rows: 16, Sequences: 1, Lookback: 136}, Took: 2 * time.Millisecond},
		{Pass: cost.Pass{Rows: 1, Sequences: 1, Read: 16, Lookback: 17}, Took: time.Millisecond},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the log gives %+v, %v, want %+v", got, err, want)
	}
	path := filepath.Join(t.TempDir(), "worker.log")
	if err := os.WriteFile(path, []byte("nothing of interest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := servedPasses([]string{path}); err == nil || !strings.Contains(err.Error(), "--log-level debug") {
		t.Errorf("a log without passes gives %v", err)
	}
}
