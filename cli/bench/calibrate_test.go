package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func TestServedPasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.log")
	if err := os.WriteFile(path, []byte("nothing of interest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := servedPasses([]string{path}); err == nil || !strings.Contains(err.Error(), "--log-level debug") {
		t.Errorf("a log without passes gives %v", err)
	}
}
