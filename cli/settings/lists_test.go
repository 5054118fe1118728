package settings

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"
)

// TestEveryListOfSettingsIsUsed reads the sources: what stands in any list of
// settings must be one that serve or worker takes. A list that nobody joined to
// theirs would be settings that are documented and refused.
func TestEveryListOfSettingsIsUsed(t *testing.T) {
	taken := map[string]bool{}
	for _, s := range everySetting {
		taken[s.Key] = true
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lists := 0
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			list, ok := n.(*ast.CompositeLit)
			if !ok || !isSettings(list.Type) {
				return true
			}
			lists++
			for _, key := range keysOf(list) {
				if !taken[key] {
					t.Errorf("%s: the setting %q is in no list that serve or worker takes", file, key)
				}
			}
			return true
		})
	}
	if lists < 7 {
		t.Errorf("%d lists were found: the test looks for the wrong thing", lists)
	}
}

func isSettings(kind ast.Expr) bool {
	array, ok := kind.(*ast.ArrayType)
	if !ok {
		return false
	}
	name, ok := array.Elt.(*ast.Ident)
	return ok && name.Name == "Setting"
}

// keysOf returns the keys of the settings in a list.
func keysOf(list *ast.CompositeLit) (keys []string) {
	for _, element := range list.Elts {
		setting, ok := element.(*ast.CompositeLit)
		if !ok {
			continue
		}
		for _, member := range setting.Elts {
			pair, ok := member.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			name, _ := pair.Key.(*ast.Ident)
			value, literal := pair.Value.(*ast.BasicLit)
			if name != nil && name.Name == "Key" && literal {
				key, _ := strconv.Unquote(value.Value)
				keys = append(keys, key)
			}
		}
	}
	return keys
}
