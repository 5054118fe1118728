package bench

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/load"
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

// TestOutside has requests that took 3 ms besides waiting and their prompts, in one report of two.
func TestOutside(t *testing.T) {
	dir := t.TempDir()
	path := func(name, stages string) string {
		text := fmt.Sprintf(`{"schema": %q, "elapsed_ms": 1, "samples": [{}], "requests": {"completed": 10},
			"latency": {"ttft_ms": {"mean": 30}}, "stages": [%s]}`, load.Schema, stages)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	a := path("a", `{"name": "auth", "mean_ms": 1}, {"name": "queue", "mean_ms": 2}, {"name": "prefill", "mean_ms": 25}`)
	b := path("b", `{"name": "queue", "mean_ms": 0}, {"name": "prefill", "mean_ms": 25}`)
	if got, err := outside([]string{a, b}); err != nil || math.Abs(got-0.004) > 1e-9 {
		t.Errorf("requests take %g s besides, %v", got, err)
	}
	if got, err := outside(nil); err != nil || got != 0 {
		t.Errorf("without reports requests take %g s besides, %v", got, err)
	}
	if _, err := outside([]string{path("c", "")}); err == nil || !strings.Contains(err.Error(), "it does not say") {
		t.Errorf("a report without stages gives %v", err)
	}
}

func TestServedPasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.log")
	if err := os.WriteFile(path, []byte("nothing of interest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := servedPasses([]string{path}); err == nil || !strings.Contains(err.Error(), "--log-level debug") {
		t.Errorf("a log without passes gives %v", err)
	}
	busy := filepath.Join(t.TempDir(), "busy.log")
	line := `{"msg":"pass computed","rows":1,"sequences":1,"took_ns":1000,"gap_ns":1}`
	if err := os.WriteFile(busy, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := servedPasses([]string{path, busy}); err != nil || len(got) != 1 {
		t.Errorf("beside a worker with a pass one without gives %d passes, %v", len(got), err)
	}
}
