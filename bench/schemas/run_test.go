package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// folder returns a folder of the files given by name.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRunCountsAndValidates(t *testing.T) {
	root := folder(t, map[string]string{
		"own/a.json":          `{"type":"object","properties":{"n":{"type":"integer","minimum":3}},"required":["n"]}`,
		"own/b.json":          `{"schema":{"enum":["x"]},"tests":[{"data":"x","valid":true},{"data":"y","valid":false}]}`,
		"own/c.json":          `{"type":"strnig"}`,
		"tests/draft7/t.json": `[{"schema":{"type":"null"},"tests":[]},{"schema":false,"tests":[]}]`,
		"remotes/r.json":      `not read`,
	})
	r, err := Run(t.Context(), Options{Roots: []string{root}, Answers: 40}, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteText(&text, true); err != nil {
		t.Fatal(err)
	}
	suite := r.Sets["suite/draft7"]
	if r.Total != (Set{3, 2}) || suite == nil || *suite != (Set{2, 1}) || r.Answers < 40 || len(r.Failures) != 0 ||
		r.Valid != 1 || r.ValidTaken != 1 || r.InvalidRefused != 1 {
		t.Errorf("%+v\n%s", r, text.String())
	}
	if missed := r.Missed(40); len(missed) != 1 || missed[0] != "accepted schemas" {
		t.Errorf("missed %q", missed)
	}
	if !strings.Contains(text.String(), "strnig") {
		t.Errorf("the report does not say why a schema was refused:\n%s", text.String())
	}
}

// TestValidatorIsIndependent has the validator refuse what no grammar was asked about.
func TestValidatorIsIndependent(t *testing.T) {
	s := source{schema: []byte(`{"type":"string","format":"date","pattern":"^(?!2)"}`), draft: jsonschema.Draft7}
	v, err := newValidator(&s)
	if err != nil {
		t.Fatal(err)
	}
	for text, valid := range map[string]bool{`"1999-02-03"`: true, `"1999-02-33"`: false, `"2999-02-03"`: false} {
		if err := validate(v, []byte(text)); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNoSchemas(t *testing.T) {
	if _, err := Run(t.Context(), Options{Roots: []string{t.TempDir()}}, func(int, int) {}); err == nil {
		t.Error("an empty folder was measured")
	}
}
