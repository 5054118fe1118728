package lint

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"parley/internal/testkit"
)

// module is the import path of the repository's root.
const module = "parley"

// A source is one parsed Go file.
type source struct {
	path      string // relative to the root, with slashes
	pkg       string // directory relative to the root; "." is the root package
	test      bool
	generated bool
	lines     int
	file      *ast.File
	fset      *token.FileSet
}

// imports returns the repository's own packages that the file imports.
func (s *source) imports() []string {
	var own []string
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if p == module {
			own = append(own, ".")
		} else if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			own = append(own, rest)
		}
	}
	return own
}

// positions are those of all files.
var positions = token.NewFileSet()

// tree is the repository, parsed once for all tests.
var tree = sync.OnceValues(func() ([]*source, error) { return parseTree(testkit.Root()) })

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := tree()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d Go files, %v", len(all), err)
	}
	return all
}

// parseTree parses every Go file below root that belongs to this module,
// whatever its build constraints.
func parseTree(root string) (out []*source, err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			return skipDir(p, rel)
		}
		if strings.HasSuffix(rel, ".go") {
			s, err := parseFile(p, rel)
			out = append(out, s)
			return err
		}
		return nil
	})
	return out, err
}

// skipDir leaves out test data, hidden and built directories, and modules of
// their own.
func skipDir(p, rel string) error {
	if rel == "." {
		return nil
	}
	name := path.Base(rel)
	if strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "bin"}, name) {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func parseFile(p, rel string) (*source, error) {
	text, err := os.ReadFile(p)
	if err != nil {
		return nil, err
	}
	file, err := parser.ParseFile(positions, rel, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := 0
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		lines++
	}
	return &source{
		path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
		generated: ast.IsGenerated(file), lines: lines, file: file, fset: positions,
	}, nil
}

// packages returns the directories that hold Go files other than tests, sorted.
func packages(files []*source) []string {
	set := map[string]bool{}
	for _, s := range files {
		if !s.test {
			set[s.pkg] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// importGraph maps each package to the own packages that its non-test files import.
func importGraph(files []*source) map[string][]string {
	graph := map[string][]string{}
	for _, s := range files {
		if s.test {
			continue
		}
		graph[s.pkg] = append(graph[s.pkg], s.imports()...)
	}
	return graph
}

// under reports whether pkg is dir or lies below it.
func under(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }
