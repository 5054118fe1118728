package model

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"parley/compute/cpu"
	"parley/internal/testkit"
)

// TestGivenGoldens checks further checkpoints with golden outputs: the
// variable PARLEY_GOLDEN names a directory with one folder for each, laid out
// like those in the golden directory of testkit.
func TestGivenGoldens(t *testing.T) {
	root := os.Getenv("PARLEY_GOLDEN")
	if root == "" {
		t.Skip("PARLEY_GOLDEN names no directory of further goldens")
	}
	files, err := filepath.Glob(filepath.Join(root, "*", "golden.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden.json below %s: %v", root, err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			g := golden{name: filepath.Base(dir), dir: dir, outputs: file}
			if exact := worstLogit(t, &g); exact > tolerance {
				g.rounded = true
				t.Logf(
					"with exact rotary frequencies a logit is off by %g, so the reference is taken to have "+
						"rounded them", exact)
			}
			testGolden(t, g, g.runner(t, cpu.NewRef()))
			testGolden(t, g, g.runner(t, newFast(t, 2, "")))
		})
	}
}

// worstLogit returns how far the reference path is from the golden logits.
func worstLogit(t *testing.T, g *golden) (worst float64) {
	r := g.runner(t, cpu.NewRef())
	for _, want := range testkit.ReadOutputs(t, g.outputs).Prompts {
		r.past = 0
		rows := r.feed(want.IDs)
		for i, w := range want.LastLogits {
			worst = max(worst, math.Abs(float64(rows[len(rows)-1][i]-w)))
		}
	}
	return worst
}
