// Localcheck runs the checks of staticcheck that do not need facts about dependencies. The
// others read all dependencies, the standard library included, which from an empty cache
// takes longer than everything else. `make staticcheck` runs all checks.
package main

import (
	"os"
	"slices"

	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	command := lintcmd.NewCommand("localcheck")
	command.ParseFlags(os.Args[1:])
	checks := slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers)
	command.AddAnalyzers(slices.DeleteFunc(checks, func(check *lint.Analyzer) bool {
		return studiesDependencies(check.Analyzer)
	})...)
	command.AddAnalyzers(unused.Analyzer)
	command.Run()
}

// studiesDependencies reports whether a check wants facts about dependencies.
func studiesDependencies(check *analysis.Analyzer) bool {
	return len(check.FactTypes) > 0 || slices.ContainsFunc(check.Requires, studiesDependencies)
}
