package lint

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/internal/testkit"
)

const (
	columnsMax = 120 // with tabs of four
	packedMax  = 4   // fields of a struct literal that may share lines
)

func TestLinesAreNarrow(t *testing.T) {
	left := map[string]int{}
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		found := wide(t, s)
		left[s.pkg] += len(found)
		report(t, columnsLeft, s.pkg, found)
	}
	shrinking(t, "columns", columnsLeft, left)
}

// wide lists the lines of a file that are too long. Raw strings are data: their
// lines may have any width.
func wide(t *testing.T, s *source) (complaints []string) {
	f, err := os.Open(filepath.Join(testkit.Root(), s.path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	raw := rawStringLines(s)
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 1<<20)
	for line := 1; scan.Scan(); line++ {
		n := utf8.RuneCountInString(scan.Text()) + 3*strings.Count(scan.Text(), "\t")
		if n > columnsMax && !raw[line] {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %d columns, more than %d", s.path, line, n, columnsMax))
		}
	}
	if scan.Err() != nil {
		t.Fatal(scan.Err())
	}
	return complaints
}

// rawStringLines returns the lines that a raw string stands on.
func rawStringLines(s *source) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING || lit.Value[0] != '`' {
			return true
		}
		for line := s.fset.Position(lit.Pos()).Line; line <= s.fset.Position(lit.End()).Line; line++ {
			lines[line] = true
		}
		return true
	})
	return lines
}

func TestLiteralsAreOneFieldPerLine(t *testing.T) {
	left := map[string]int{}
	for _, s := range sources(t) {
		if s.generated || s.test {
			continue
		}
		found := packed(s)
		left[s.pkg] += len(found)
		report(t, packedLeft, s.pkg, found)
	}
	shrinking(t, "packed", packedLeft, left)
}

// packed lists the struct literals with many fields of which some share a line.
func packed(s *source) (complaints []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) <= packedMax {
			return true
		}
		line := 0
		for _, elt := range lit.Elts {
			field, ok := elt.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if _, ok := field.Key.(*ast.Ident); !ok {
				return true
			}
			at := s.fset.Position(field.Pos())
			if at.Line == line {
				complaints = append(complaints,
					fmt.Sprintf("%s: a literal of %d fields: one per line", at, len(lit.Elts)))
				return true
			}
			line = s.fset.Position(field.End()).Line
		}
		return true
	})
	return complaints
}
