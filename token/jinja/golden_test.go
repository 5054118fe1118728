package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/internal/testkit"
)

// dataNow is the moment at which the reference renders were made.
var dataNow = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// An outcome is what jinja2 made of a template: a text or an error.
type outcome struct {
	OK  *string `json:"ok"`
	Err string  `json:"err"`
}

func (want outcome) check(t *testing.T, got string, err error) {
	t.Helper()
	switch {
	case want.OK == nil && err == nil:
		t.Errorf("jinja2 refuses with %s, we render %q", want.Err, got)
	case want.OK != nil && err != nil:
		t.Errorf("jinja2 renders %q, we refuse: %v", *want.OK, err)
	case want.OK != nil && got != *want.OK:
		t.Errorf("renders differ at byte %d\n got %q\nwant %q", commonPrefix(got, *want.OK), got, *want.OK)
	}
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func readJSONFile(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// caseVars returns the variables of one conversation of the shared data.
func caseVars(t testing.TB, raw json.RawMessage) (name string, vars *Map) {
	t.Helper()
	v, err := FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	conversation, _ := v.(*Map)
	vars = NewMap()
	for _, key := range conversation.Keys() {
		value, _ := conversation.Get(key)
		if key == "name" {
			name, _ = value.(string)
			continue
		}
		vars.Set(key, value)
	}
	vars.Set("bos_token", "<s>")
	vars.Set("eos_token", "</s>")
	return name, vars
}

// TestSharedTemplates renders every template in the shared directory with
// every conversation there and compares with jinja2's own renders.
func TestSharedTemplates(t *testing.T) {
	dir := testkit.SharedData(t, "templates")
	var cases []json.RawMessage
	readJSONFile(t, filepath.Join(dir, "cases.json"), &cases)
	var expected map[string]outcome
	readJSONFile(t, filepath.Join(dir, "expected.json"), &expected)
	for key, want := range expected {
		t.Run(key, func(t *testing.T) {
			file, caseName, _ := strings.Cut(key, "|")
			source, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, raw := range cases {
				name, vars := caseVars(t, raw)
				if name != caseName {
					continue
				}
				got, err := renderSorted(string(source), vars)
				want.check(t, got, err)
			}
		})
	}
}

func renderSorted(source string, vars *Map) (string, error) {
	tmpl, err := Parse("test", source, Options{SortJSONKeys: true})
	if err != nil {
		return "", err
	}
	return tmpl.Render(Context{Vars: vars, Now: dataNow})
}
