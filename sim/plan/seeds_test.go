package plan

import (
	"math"
	"os"
	"testing"

	"github.com/goccy/go-yaml"
)

// A seedNumber is one number of a seed, the settings that lead to it, and what
// is right where the seed is not.
type seedNumber struct {
	Seed   string   `yaml:"seed"`
	What   string   `yaml:"what"`
	Set    string   `yaml:"set"`
	Over   string   `yaml:"over"`
	Cell   string   `yaml:"cell"`
	Says   string   `yaml:"says"`
	To     string   `yaml:"to"`
	Within *float64 `yaml:"within"`
	Right  string   `yaml:"right"`
	Why    string   `yaml:"why"`
}

// TestSeedNumbers shows each number of the seeds beside what the sheet gives.
func TestSeedNumbers(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []seedNumber
	if err := yaml.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, n := range all {
		seen[n.Seed] = true
		t.Run(n.Seed+" "+n.What, n.check)
	}
	if len(seen) != 5 {
		t.Errorf("numbers of %d seeds, want all 5", len(seen))
	}
}

func (n seedNumber) check(t *testing.T) {
	settings, err := ParseSettings(n.Set)
	if err != nil {
		t.Fatal(err)
	}
	got := valueOf(t, settings, n.Cell)
	if n.Over != "" {
		before, err := ParseSettings(n.Over)
		if err != nil {
			t.Fatal(err)
		}
		got /= valueOf(t, settings.With(before), n.Cell)
	}
	unit := planner.Sheet.Cell(n.Cell).Unit
	says, within := number(t, unit, n.Says), 0.05
	if n.Within != nil {
		within = *n.Within
	}
	agrees := math.Abs(got-says) <= (within+1e-9)*says
	if n.To != "" {
		agrees = says <= got && got <= number(t, unit, n.To)
	}
	t.Logf("seed %s: %s; here %s", n.Seed, Format(unit, says), Format(unit, got))
	switch {
	case n.Right == "" && !agrees:
		t.Errorf("%s is %g: the seed says %s %s, give or take %g", n.Cell, got, n.Says, n.To, within)
	case n.Right != "" && agrees:
		t.Errorf("%s is %g, as the seed says: it is right", n.Cell, got)
	case n.Right != "" && n.Why == "":
		t.Errorf("%s differs from the seed without a reason", n.Cell)
	case n.Right != "":
		if right := number(t, unit, n.Right); math.Abs(got-right) > 0.005*right {
			t.Errorf("%s is %g: right is %g (seed: %g)", n.Cell, got, right, says)
		}
	}
}

func number(t *testing.T, unit Unit, text string) float64 {
	t.Helper()
	x, err := Parse(unit, text)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func valueOf(t *testing.T, settings Settings, cell string) float64 {
	t.Helper()
	p, err := planner.Plan(settings)
	if err != nil {
		t.Fatal(err)
	}
	if planner.Sheet.Cell(cell) == nil {
		t.Fatalf("no cell %s", cell)
	}
	return p.Values[cell]
}
