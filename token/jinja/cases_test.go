package jinja

import (
	"encoding/json"
	"errors"
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
		`{{ "a"|wordwrap(3) }}`:           `no filter named 'wordwrap'`,
		`{{ "a"|escape }}`:                `no filter named 'escape'`,
		`{{ ["a"]|map("escape")|list }}`:  `no filter named 'escape'`,
		`{{ "a" is escaped }}`:            `no test named 'escaped'`,
		`{{ ["a"]|select("escaped") }}`:   `no test named 'escaped'`,
		`{{ "a".zfill(3) }}`:              `'str object' has no attribute 'zfill'`,
		`{{ [1].count(1) }}`:              `'list object' has no attribute 'count'`,
		`{{ cycler("a", "b") }}`:          `'cycler' is undefined`,
		`{% call m() %}{% endcall %}`:     `unknown tag 'call'`,
		`{% include "x" %}`:               `unknown tag 'include'`,
		`{% raw %}{% endraw %}`:           `unknown tag 'raw'`,
		`{{ "%s" % 1 }}`:                  `strings have no operator %`,
		`{{ "{:>5}".format(1) }}`:         `unsupported field {:>5}`,
		`{{ strftime_now("%U") }}`:        `no directive %U`,
		`{{ 9223372036854775807 + 1 }}`:   `9223372036854775807 + 1 does not fit 64 bits`,
		`{{ 99999999999999999999 + 1 }}`:  `more than 64 bits`,
		`{{ range(3) }}`:                  `a range cannot be printed`,
		`{% for x in [1] recursive %}`:    `got 'recursive'`,
		`{{ {(1, 2): 3} }}`:               `unhashable type: 'tuple'`,
		`{{ [1]|sort(attribute="a,b") }}`: `sort: give one attribute`,
		`{{ " a b".split(none, 1) }}`:     `split: maxsplit needs a separator`,
	} {
		_, err := renderPlain("\n\n"+source, NewMap())
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, want) || e.Line != 3 {
			t.Errorf("%s gives %v, want %q on line 3", source, err, want)
		}
	}
}
