package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/cli/remote"
	"parley/internal/testkit"
)

func TestMain(m *testing.M) {
	if address := os.Getenv("TEST_DEFAULT_URL"); address != "" {
		remote.DefaultURL = address
	}
	if os.Getenv("TEST_RUNTIME_DIR") == "" { // this is the test, and not a program that it runs
		dir, err := os.MkdirTemp("", "parley-run-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		os.Setenv("TEST_RUNTIME_DIR", dir)
		os.Setenv("XDG_RUNTIME_DIR", dir)
		// Threads that wait for each other take processor time: servers compute with one if a test says no more.
		if _, given := os.LookupEnv("PARLEY_THREADS"); !given {
			os.Setenv("PARLEY_THREADS", "1")
		}
		http.DefaultClient = &http.Client{Transport: ownersTransport{}}
	}
	testscript.Main(m, map[string]func(){"parley": func() { os.Exit(run(slices.Clone(os.Args[1:]))) }})
}

// An ownersTransport sends requests as the person who runs the server: where a request
// shows no credential, with the local token, if the server has one.
type ownersTransport struct{}

// RoundTrip sends a request.
func (ownersTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := remote.LocalTokenOf(r.URL.Scheme + "://" + r.URL.Host); token != "" &&
		r.Header.Get("Authorization") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// nowhere is an address at which no server runs.
const nowhere = "http://127.0.0.1:1"

func TestScripts(t *testing.T) {
	hub := testkit.NewHub(t)
	mini, err := os.ReadFile(filepath.Join(testkit.Root(), "internal", "builtin", "polly-mini.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	hub.Add("org/Tiny-GGUF", "Tiny-Q8_0.gguf", mini)
	testscript.Run(t, testscript.Params{Dir: "testdata", Setup: func(e *testscript.Env) error {
		e.Setenv("HF_ENDPOINT", hub.Server.URL)
		e.Setenv("XDG_DATA_HOME", e.WorkDir+"/data")
		e.Setenv("SAFETENSORS", testkit.Golden("tiny-llama"))
		e.Setenv("TEST_DEFAULT_URL", nowhere)
		return nil
	}})
}
