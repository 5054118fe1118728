package kvbench

import (
	"strings"
	"testing"
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

func TestMetComparesAsTheBarSays(t *testing.T) {
	r := Report{Results: []Result{{Name: "slow", Value: 9, Bar: 10}, {Name: "fast", Value: 10, Bar: 10}, {Name: "short", Value: 9, Bar: 10, AtMost: true}, {Name: "long", Value: 11, Bar: 10, AtMost: true}}}
	if missed := strings.Join(r.Missed(), " "); missed != "slow long" {
		t.Errorf("missed: %s", missed)
	}
}
