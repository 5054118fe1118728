// Vet is a tool for `go vet -vettool`. It runs the checks of go vet together with those of
// staticcheck that do not need facts about dependencies, so that each package is read once.
// The other checks of staticcheck read all dependencies, the standard library included, which
// from an empty cache takes longer than everything else. `make staticcheck` runs all checks.
package main

import (
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
)

func main() {
	// This one wants tests to say why the output of a program ended, too.
	checks := slices.DeleteFunc(slices.Clone(vet.Suite), func(check *analysis.Analyzer) bool {
		return check == scannererr.Analyzer
	})
	checks = append(checks, unusedAnalyzer)
	for _, check := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers) {
		if !check.Doc.NonDefault && !studiesDependencies(check.Analyzer) {
			checks = append(checks, named(check))
		}
	}
	unitchecker.Main(checks...)
}

// studiesDependencies reports whether a check wants facts about dependencies.
func studiesDependencies(check *analysis.Analyzer) bool {
	return len(check.FactTypes) > 0 || slices.ContainsFunc(check.Requires, studiesDependencies)
}

// named returns check with its name at the end of what it reports, by which its documentation is found.
func named(check *lint.Analyzer) *analysis.Analyzer {
	with := *check.Analyzer
	with.Run = func(pass *analysis.Pass) (any, error) {
		reporting := *pass
		reporting.Report = func(found analysis.Diagnostic) {
			found.Message += " (" + with.Name + ")"
			pass.Report(found)
		}
		return check.Analyzer.Run(&reporting)
	}
	return &with
}
