package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestZZExt(t *testing.T) {
	dir := os.Getenv("JINJA_EXT")
	if dir == "" {
		t.Skip()
	}
	var cases []json.RawMessage
	readJSONFile(t, filepath.Join(dir, "cases.json"), &cases)
	for file, sorted := range map[string]bool{"expected.json": true, "expected_order.json": false} {
		var expected map[string]outcome
		readJSONFile(t, filepath.Join(dir, file), &expected)
		for key, want := range expected {
			t.Run(key, func(t *testing.T) {
				file, caseName, _ := strings.Cut(key, "|")
				source, _ := os.ReadFile(filepath.Join(dir, file))
				for _, raw := range cases {
					name, vars := caseVars(t, raw)
					if name != caseName {
						continue
					}
					tmpl, err := Parse("test", string(source), Options{SortJSONKeys: sorted})
					got := ""
					if err == nil {
						got, err = tmpl.Render(Context{Vars: vars, Now: dataNow})
					}
					if want.OK == nil && err != nil {
						t.Logf("ERRPAIR %s || %v", want.Err, err)
					}
					want.check(t, got, err)
				}
			})
		}
	}
}
