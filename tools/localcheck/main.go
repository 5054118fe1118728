// Localcheck runs the checks of staticcheck that do not need to know what the functions
// of dependencies do. The others build an intermediate representation of all functions of
// all dependencies, the standard library included, which from an empty cache takes longer
// than everything else. `make staticcheck` runs all checks.
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

// studiesDependencies reports whether a check wants facts from the functions of dependencies.
func studiesDependencies(check *analysis.Analyzer) bool {
	if len(check.FactTypes) > 0 && needs(check, "buildir") {
		return true
	}
	return slices.ContainsFunc(check.Requires, studiesDependencies)
}

// needs reports whether a check has to run after one that has a name.
func needs(check *analysis.Analyzer, name string) bool {
	return slices.ContainsFunc(check.Requires, func(other *analysis.Analyzer) bool {
		return other.Name == name || needs(other, name)
	})
}
