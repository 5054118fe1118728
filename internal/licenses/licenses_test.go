package licenses

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"parley/internal/testkit"
)

// TestEveryModuleHasItsLicense compares the generated list with go.mod.
func TestEveryModuleHasItsLicense(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(testkit.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, m := range Modules() {
		listed[m.Path] = m.Version
		if m.License == "" || len(m.Text) < 200 {
			t.Errorf("%s has the licence %q of %d bytes", m.Path, m.License, len(m.Text))
		}
	}
	required := regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(file), -1)
	if len(required) < 20 {
		t.Fatalf("go.mod requires %d modules", len(required))
	}
	for _, r := range required {
		if listed[r[1]] != r[2] {
			t.Errorf("%s is required at %s and listed at %q: run make generate", r[1], r[2], listed[r[1]])
		}
	}
	if _, ok := listed["std"]; !ok || len(listed) != len(required)+1 {
		t.Errorf("%d modules are listed, go.mod has %d and Go itself is one more", len(listed), len(required))
	}
}
