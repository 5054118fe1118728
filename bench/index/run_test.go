package index

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRunMeasuresEverything measures a small fleet: the numbers mean nothing then,
// but all workers must hold what they were given.
func TestRunMeasuresEverything(t *testing.T) {
	r, err := Run(t.Context(), Options{Workers: 3, Blocks: 256, Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if len(r.Results) < 9 {
		t.Errorf("%d results", len(r.Results))
	}
	for _, result := range r.Results {
		if result.Value <= 0 || !strings.Contains(text.String(), result.Name) {
			t.Errorf("%+v", result)
		}
	}
}

// TestTheCalmestRoundsCount chooses rounds by the yardstick alone.
func TestTheCalmestRoundsCount(t *testing.T) {
	l := chosen([]round{{9, 105}, {1, 200}, {7, 100}, {2, 103}, {8, 101}}, 3)
	if !slices.Equal(l.calm, []time.Duration{2, 7, 8}) || !slices.Equal(l.all, []time.Duration{1, 2, 7, 8, 9}) {
		t.Errorf("got %v", l)
	}
	if (round{1, 104}).within(100) || !(round{1, 103}).within(100) {
		t.Error("what is calm is not what is within 3 %")
	}
	made := 0
	if l := rounds(2, func() time.Duration { made++; return 1 }); len(l.calm) != 2 || len(l.all) != made ||
		made > 2*roundsMax {
		t.Errorf("%d and %d of %d rounds", len(l.calm), len(l.all), made)
	}
}

func TestMetComparesAsTheBarSays(t *testing.T) {
	r := Report{Results: []Result{{Name: "slow", Value: 9, Bar: 10}, {Name: "fast", Value: 10, Bar: 10},
		{Name: "short", Value: 9, Bar: 10, AtMost: true}, {Name: "long", Value: 11, Bar: 10, AtMost: true}}}
	if missed := strings.Join(r.Missed(), " "); missed != "slow long" {
		t.Errorf("missed: %s", missed)
	}
}
