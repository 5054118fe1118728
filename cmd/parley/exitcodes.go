package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
)

// The exit codes. exitCodes explains them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoServer    = 3
	exitInterrupted = 130
)

// exitCodes is the one table of what exit codes mean.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "done"},
	{exitFailed, "failed; standard error says why and what to do"},
	{exitUsage, "usage error: an unknown command, flag or argument"},
	{exitNoServer, "no server answers at the address given"},
	{exitInterrupted, "interrupted by Ctrl-C before the work was complete"},
}

// exitCode returns the code for what a command came to.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, cli.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, cli.ErrUsage) || isUsage(err):
		return exitUsage
	case errors.Is(err, load.ErrNoServer):
		return exitNoServer
	}
	return exitFailed
}

// isUsage finds what cobra says of command lines. It has no errors of its own
// to compare with.
func isUsage(err error) bool {
	for _, words := range []string{"unknown command ", "required flag(s) "} {
		if strings.HasPrefix(err.Error(), words) {
			return true
		}
	}
	return false
}

func newExitCodes() *cobra.Command {
	var out strings.Builder
	out.WriteString("Every command ends with one of these exit codes:\n\n")
	for _, c := range exitCodes {
		fmt.Fprintf(&out, "  %3d  %s\n", c.code, c.meaning)
	}
	out.WriteString(
		"\nFor example, a script can start a server if none runs:\n\n  parley models || [ $? -ne 3 ] || parley serve &")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: out.String()}
}
