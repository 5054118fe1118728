package main

import (
	"fmt"
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// unusedAnalyzer reports what U1000 of staticcheck finds. Go vet examines a package together with the tests
// inside of it, so that what only they use is used.
var unusedAnalyzer = &analysis.Analyzer{
	Name:     "unused",
	Doc:      "report code that is not used",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run:      reportUnused,
}

func reportUnused(pass *analysis.Pass) (any, error) {
	type place struct {
		file string
		line int
		name string
	}
	at := func(object unused.Object) place {
		return place{object.Position.Filename, object.Position.Line, object.Name}
	}
	result := pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result)
	// A field of a generic type is as many objects as the type has instances.
	used := map[place]bool{}
	for _, object := range result.Used {
		used[at(object)] = true
	}
	for _, object := range result.Unused {
		if used[at(object)] {
			continue
		}
		pos, err := find(pass.Fset, pass.Files, object.Position)
		if err != nil {
			return nil, err
		}
		pass.Reportf(pos, "%s %s is unused (U1000)", object.Kind, object.Name)
	}
	return nil, nil
}

// find returns the place in one of files whose position is wanted.
func find(set *token.FileSet, files []*ast.File, wanted token.Position) (token.Pos, error) {
	for _, file := range files {
		if in := set.File(file.FileStart); in.Name() == wanted.Filename {
			return in.Pos(wanted.Offset), nil
		}
	}
	return token.NoPos, fmt.Errorf("no file of the package has %s", wanted)
}
