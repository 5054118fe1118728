// Typecheck checks the types of packages, and of their tests, for another
// platform from source alone, and their assembly against its declarations.
// A build would find the same mistakes, but it compiles every dependency once
// more for that platform, which costs minutes.
//
//	GOOS=darwin GOARCH=arm64 go -C tools run ./typecheck ./...
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/packages"
)

func main() {
	config := &packages.Config{
		Mode:  packages.LoadSyntax | packages.NeedDeps,
		Tests: true,
	}
	loaded, err := packages.Load(config, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if packages.PrintErrors(loaded) > 0 {
		os.Exit(1)
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{asmdecl.Analyzer}, loaded, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	found := false
	for action := range graph.All() {
		found = found || len(action.Diagnostics) > 0 || action.Err != nil
	}
	if found {
		_ = graph.PrintText(os.Stderr, 0)
		os.Exit(1)
	}
}
