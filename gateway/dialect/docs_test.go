package dialect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// TestDocumentedFamilies holds the table in docs/models.md to the one here.
func TestDocumentedFamilies(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, d := range Table {
		rows.WriteString("| " + d.Families + " | " + d.Name + " |\n")
	}
	if !strings.Contains(string(page), rows.String()) {
		t.Errorf("docs/models.md lacks these rows:\n%s", rows.String())
	}
}
