package jinja

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestCases compares with what jinja2 made of the templates in
// testdata/sources.txt; testdata/make_cases.py writes the file.
func TestCases(t *testing.T) {
	var file struct {
		Context json.RawMessage      `json:"context"`
		Cases   [][2]json.RawMessage `json:"cases"`
	}
	readJSONFile(t, "testdata/cases.json", &file)
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

func renderPlain(source string, vars *Map) (string, error) {
	tmpl, err := Parse("test", source, Options{})
	if err != nil {
		return "", err
	}
	return tmpl.Render(Context{Vars: vars, Now: dataNow})
}

func TestUnknownNamesAreErrors(t *testing.T) {
	for source, want := range map[string]string{
		`{{ "a"|wordwrap(3) }}`:  `no filter named 'wordwrap'`,
		`{{ "a"|escape }}`:       `no filter named 'escape'`,
		`{{ "a" is escaped }}`:   `no test named 'escaped'`,
		`{{ "a".zfill(3) }}`:     `'str object' has no attribute 'zfill'`,
		`{{ cycler("a", "b") }}`: `'cycler' is undefined`,
	} {
		if got, err := renderPlain(source, NewMap()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives %q, %v, not %q", source, got, err, want)
		}
	}
}
