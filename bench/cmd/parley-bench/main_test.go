package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"parley-bench": main}) }

// TestScripts runs the command lines in testdata. Servers are those of the parley that
// PARLEY_BIN names.
func TestScripts(t *testing.T) {
	if os.Getenv("PARLEY_BIN") == "" {
		t.Skip("NOT RUN: command lines against the real parley: make modules")
	}
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(e *testscript.Env) error {
		e.Setenv("PARLEY_BIN", os.Getenv("PARLEY_BIN"))
		return nil
	}})
}

// ran runs parley-bench in this process and returns what it printed.
func ran(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, messages bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&messages)
	err := root.ExecuteContext(t.Context())
	if messages.Len() > 0 {
		t.Errorf("it is not quiet without a terminal: %q", messages.String())
	}
	return out.String(), err
}
