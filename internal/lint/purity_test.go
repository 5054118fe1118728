package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// pure are the packages that decide: they take state and now, return a plan,
// and touch no clock, socket, goroutine or file, so that a simulator can run
// them in virtual time.
var pure = []string{"gateway/admin", "queue", "limit", "route", "route/kvindex",
	"engine/automaton", "engine/grammar",
	"engine/sched", "engine/kv", "engine/sample", "engine/spec", "fleet/scale", "sim", "sim/cost", "sim/traffic",
	"sim/plan", "internal/stat", "internal/fairshare", "internal/exactmath"}

// impureImports may not be imported by a pure package at all.
var impureImports = []string{"os", "net", "net/http", "io", "log", "log/slog", "sync", "sync/atomic", "context",
	"syscall", "crypto/rand"}

// impureCalls may not be called: they read a clock or shared randomness.
var impureCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"rand": {"Int", "IntN", "Intn", "Int63", "Float64", "Float32", "Uint64", "Uint32", "N", "Perm", "Shuffle",
		"NormFloat64", "ExpFloat64"},
}

func TestPurePackagesOnlyDecide(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !slices.Contains(pure, s.pkg) {
			continue
		}
		for _, complaint := range impurities(s) {
			t.Error(complaint)
		}
	}
}

func impurities(s *source) (complaints []string) {
	complain := func(at token.Pos, what string) {
		complaints = append(complaints, fmt.Sprintf("%s: %s in a pure package", s.fset.Position(at), what))
	}
	for _, spec := range s.file.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impureImports, p) {
			complain(spec.Pos(), "import of "+p)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			complain(n.Pos(), "a goroutine")
		case *ast.SelectStmt, *ast.SendStmt:
			complain(n.Pos(), "a channel operation")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impureCalls[x.Name], n.Sel.Name) {
				complain(n.Pos(), x.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return complaints
}
