package cpu

import (
	"os"
	"testing"
)

// TestBestPath wants the path that whoever knows the processor, emulated or
// not, names in the environment.
func TestBestPath(t *testing.T) {
	want := os.Getenv("PARLEY_TEST_BEST_PATH")
	if want == "" {
		t.Skip("PARLEY_TEST_BEST_PATH does not say which path is the best here")
	}
	best, err := pickPath(paths(), "")
	if err != nil || best.name != want {
		t.Errorf("the best path is %v (%v), wanted %s", best, err, want)
	}
}
