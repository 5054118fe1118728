package main

import (
	"os"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/internal/testkit"
)

func TestMain(m *testing.M) {
	if address := os.Getenv("TEST_DEFAULT_URL"); address != "" {
		defaultURL = address
	}
	testscript.Main(m, map[string]func(){"parley": func() { os.Exit(run(slices.Clone(os.Args[1:]))) }})
}

// nowhere is an address at which no server runs.
const nowhere = "http://127.0.0.1:1"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(e *testscript.Env) error {
		e.Setenv("XDG_DATA_HOME", e.WorkDir+"/data")
		e.Setenv("SAFETENSORS", testkit.Golden("tiny-llama"))
		e.Setenv("TEST_DEFAULT_URL", nowhere)
		return nil
	}})
}
