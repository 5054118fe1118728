// Typecheck checks the types of packages, and of their tests, for another
// platform from source alone. A build would find the same mistakes, but it
// compiles every dependency once more for that platform, which costs minutes.
//
//	GOOS=darwin GOARCH=arm64 go run ./internal/lint/typecheck ./...
package main

import (
	"fmt"
	"os"

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
}
