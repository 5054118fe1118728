package lint

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// The budgets keep the code readable: most functions fit a glance, every file
// fits a sitting, no package is buried. They count statements, so that packing
// several into one line gains nothing.
const (
	functionStatementsMax    = 64
	functionStatementsP90    = 20
	functionStatementsMedian = 6
	fileStatementsMax        = 450
	fileLinesMax             = 700 // declarations and tables have few statements
	depthMax                 = 2
	packagesMax              = 136
	interfacesMax            = 10
)

// longFunctions may be longer than the budget, each for the reason given.
var longFunctions = map[string]string{}

// statements returns how many statements stand below a node. Blocks and labels
// only group others.
func statements(node ast.Node) int {
	n := 0
	ast.Inspect(node, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.BlockStmt, *ast.LabeledStmt, *ast.EmptyStmt:
		case ast.Stmt:
			n++
		}
		return true
	})
	return n
}

func TestFunctionsAreShort(t *testing.T) {
	var lengths []int
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := statements(fn.Body)
			if !s.test {
				lengths = append(lengths, n)
			}
			if name := s.pkg + "." + fn.Name.Name; n > functionStatementsMax && longFunctions[name] == "" {
				t.Errorf("%s: %s has %d statements, more than %d",
					s.fset.Position(fn.Pos()), fn.Name.Name, n, functionStatementsMax)
			}
		}
	}
	slices.Sort(lengths)
	if p := lengths[len(lengths)/2]; p > functionStatementsMedian {
		t.Errorf("the median function has %d statements, more than %d", p, functionStatementsMedian)
	}
	if p := lengths[len(lengths)*9/10]; p > functionStatementsP90 {
		t.Errorf("one function in ten has over %d statements, more than %d", p, functionStatementsP90)
	}
}

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		if n := statements(s.file); n > fileStatementsMax {
			t.Errorf("%s has %d statements, more than %d", s.path, n, fileStatementsMax)
		}
		if s.lines > fileLinesMax {
			t.Errorf("%s has %d lines, more than %d", s.path, s.lines, fileLinesMax)
		}
	}
}

func TestTreeIsShallow(t *testing.T) {
	pkgs := packages(sources(t))
	for _, pkg := range pkgs {
		if depth := strings.Count(pkg, "/") + 1; pkg != "." && depth > depthMax && !slices.Contains(apart, pkg) &&
			pkg != "internal/builtin/gen" && pkg != "internal/licenses/gen" {
			t.Errorf("package %s lies %d folders deep, more than %d", pkg, depth, depthMax)
		}
	}
	if len(pkgs) > packagesMax {
		t.Errorf("%d packages, more than %d", len(pkgs), packagesMax)
	}
}

func TestInterfacesAreFew(t *testing.T) {
	var names []string
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					names = append(names, s.pkg+"."+spec.Name.Name)
				}
			}
			return true
		})
	}
	if len(names) > interfacesMax {
		t.Errorf("%d exported interfaces, more than %d: %v", len(names), interfacesMax, names)
	}
}

// TestNoProgramsAreKept finds programs that were built in the wrong place: the
// repository holds sources and data.
func TestNoProgramsAreKept(t *testing.T) {
	root := testkit.Root()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			if rel == "bin" {
				return fs.SkipDir
			}
			return skipDir(p, filepath.ToSlash(rel))
		}
		f, err := os.Open(p)
		if err != nil || !d.Type().IsRegular() {
			return nil // it may be gone by now, or not a file
		}
		defer f.Close()
		magic := make([]byte, 4)
		if n, _ := f.Read(magic); n == 4 && (string(magic) == "\x7fELF" || string(magic) == "\xcf\xfa\xed\xfe") {
			t.Errorf("%s is a program", rel)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
