package lint

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

func TestEveryPackageIsExplained(t *testing.T) {
	explained := map[string]bool{}
	files := sources(t)
	for _, s := range files {
		if !s.test && s.file.Doc != nil && len(strings.Fields(s.file.Doc.Text())) >= 8 {
			explained[s.pkg] = true
		}
	}
	for _, pkg := range packages(files) {
		if !explained[pkg] {
			t.Errorf("package %s has no doc comment that says what it is for", pkg)
		}
	}
}

func TestExportedNamesAreExplained(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		for _, decl := range s.file.Decls {
			if name := unexplained(decl); name != "" {
				t.Errorf("%s: exported %s has no doc comment", s.fset.Position(decl.Pos()), name)
			}
		}
	}
}

// unexplained returns the first exported name of decl that no comment explains.
func unexplained(decl ast.Decl) string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && receiverExported(d) {
			return d.Name.Name
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if d.Doc != nil {
				return ""
			}
			switch sp := spec.(type) {
			case *ast.TypeSpec:
				if sp.Name.IsExported() && sp.Doc == nil && sp.Comment == nil {
					return sp.Name.Name
				}
			case *ast.ValueSpec:
				if sp.Names[0].IsExported() && sp.Doc == nil && sp.Comment == nil {
					return sp.Names[0].Name
				}
			}
		}
	}
	return ""
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// vague are words that name no role: each hides a better noun.
var vague = regexp.MustCompile(`(Manager|Helper|Util|Utils|Service|Impl|Base|Info)$|^(Manager|Helper|Util)`)

func TestNamesSaySomething(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok && vague.MatchString(typ.Name.Name) {
					t.Errorf("%s: type %s: the name says nothing; find the noun", s.fset.Position(typ.Pos()),
						typ.Name.Name)
				}
			}
		}
	}
}
