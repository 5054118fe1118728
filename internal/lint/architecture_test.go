package lint

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// folderLine is a line of the drawing of the tree in ARCHITECTURE.md.
var folderLine = regexp.MustCompile(`^( *)([a-z0-9/-]+)/ `)

// drawnFolders returns the folders that the drawing in ARCHITECTURE.md names.
func drawnFolders(text string) (folders []string) {
	_, tree, _ := strings.Cut(text, "## Folders")
	_, tree, _ = strings.Cut(tree, "```")
	tree, _, _ = strings.Cut(tree, "```")
	parent := ""
	for line := range strings.Lines(tree) {
		switch m := folderLine.FindStringSubmatch(line); {
		case m == nil:
		case m[1] == "":
			parent = m[2]
			folders = append(folders, parent)
		default:
			folders = append(folders, path.Join(parent, m[2]))
		}
	}
	return folders
}

// ownPath matches what ARCHITECTURE.md quotes if it is a path of the tree.
var ownPath = regexp.MustCompile("`([a-z0-9_]+(?:/[a-z0-9_]+)+(?:\\.[a-z]+)?|[a-z0-9_]+\\.go)`")

// TestArchitectureIsTrue compares ARCHITECTURE.md with the tree: every package is in
// the drawing, every folder of the drawing and every path in the text exists.
func TestArchitectureIsTrue(t *testing.T) {
	root := testkit.Root()
	content, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	drawn := drawnFolders(text)
	if len(drawn) == 0 {
		t.Fatal("ARCHITECTURE.md has no drawing of the tree")
	}
	var all []string
	for _, module := range []string{".", "bench", "tools"} {
		files, err := parseTree(filepath.Join(root, module))
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range packages(files) {
			all = append(all, path.Join(module, pkg))
		}
	}
	for _, pkg := range all {
		// Generators belong to the package above them.
		if pkg != "." && !slices.Contains(drawn, pkg) &&
			path.Base(pkg) != "gen" {
			t.Errorf("package %s is not in the drawing of ARCHITECTURE.md", pkg)
		}
	}
	for _, m := range ownPath.FindAllStringSubmatch(text, -1) {
		drawn = append(drawn, m[1])
	}
	for _, name := range drawn {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", name)
		}
	}
}
