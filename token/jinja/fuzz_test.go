package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// addSeeds gives a fuzz target the templates of the golden cases.
func addSeeds(f *testing.F) {
	f.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "cases.json"))
	if err != nil {
		f.Fatal(err)
	}
	var file struct {
		Cases [][2]json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		var source string
		if err := json.Unmarshal(c[0], &source); err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
}

// FuzzParse checks that any source parses or fails with a place.
func FuzzParse(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, source string) {
		_, err := Parse("fuzz", source, Options{})
		if err != nil && kindOf(err) != SyntaxError {
			t.Errorf("%q: %v is no syntax error", source, err)
		}
	})
}

// FuzzRender checks that any template ends within its limits.
func FuzzRender(f *testing.F) {
	addSeeds(f)
	vars := NewMap()
	vars.Set("s", "Hello é World")
	vars.Set("l", NewList(3, 1, "x", nil, 2.5))
	vars.Set("d", mustJSON(f, `{"b": 1, "a": {"c": [1, 2, {"d": null}]}}`))
	vars.Set("messages", mustJSON(f, `[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null}]`))
	limits := Limits{Steps: 20_000, MemoryBytes: 1 << 20, OutputBytes: 1 << 16, Depth: 300}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("fuzz", source, Options{})
		if err != nil {
			return
		}
		out, err := tmpl.Render(Context{Vars: vars, Now: dataNow, Limits: limits})
		if len(out) > limits.OutputBytes {
			t.Errorf("%q wrote %d bytes", source, len(out))
		}
		if err != nil && kindOf(err) == "" {
			t.Errorf("%q: %v is no template error", source, err)
		}
	})
}

func mustJSON(tb testing.TB, text string) Value {
	tb.Helper()
	v, err := FromJSON([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
