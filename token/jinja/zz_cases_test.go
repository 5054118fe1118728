package jinja

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// TestZZCases compares with what jinja2 made of the templates in
// testdata/sources.txt; testdata/make_cases.py writes the file.
func TestZZCases(t *testing.T) {
	if os.Getenv("JINJA_CASES") == "" {
		t.Skip()
	}
	var file struct {
		Context json.RawMessage      `json:"context"`
		Cases   [][2]json.RawMessage `json:"cases"`
	}
	readJSONFile(t, os.Getenv("JINJA_CASES"), &file)
	v, err := FromJSON(file.Context)
	if err != nil {
		t.Fatal(err)
	}
	vars, _ := v.(*Map)
	for i, c := range file.Cases {
		var source string
		var want outcome
		if err := json.Unmarshal(c[0], &source); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(c[1], &want); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("%03d", i), func(t *testing.T) {
			got, err := renderPlain(source, vars)
			if want.check(t, got, err); t.Failed() {
				t.Logf("template: %s", source)
			}
		})
	}
}

