package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/internal/testkit"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parley": func() { os.Exit(run(os.Args[1:])) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(e *testscript.Env) error {
		e.Setenv("XDG_DATA_HOME", e.WorkDir+"/data")
		e.Setenv("SAFETENSORS", testkit.Golden("tiny-llama"))
		return nil
	}})
}
