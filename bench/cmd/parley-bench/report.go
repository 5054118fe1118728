package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/pflag"

	"parley/internal/term"
)

// program names what was measured: the commit that this program was built from.
func program() string {
	recorded, _ := debug.ReadBuildInfo()
	settings := map[string]string{}
	for _, s := range recorded.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if len(commit) < 12 {
		return "parley"
	}
	if settings["vcs.modified"] == "true" {
		return "parley commit " + commit[:12] + " with changes"
	}
	return "parley commit " + commit[:12]
}

// addParley adds the flag that names the program that serves.
func addParley(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "parley", "",
		"measure the parley at this `PATH` (default: beside this program, then in PATH)")
}

// findParley returns where the program that serves is.
func findParley(path string) (string, error) {
	if path != "" {
		return exec.LookPath(path)
	}
	if self, err := os.Executable(); err == nil {
		if beside, err := exec.LookPath(filepath.Join(filepath.Dir(self), "parley")); err == nil {
			return beside, nil
		}
	}
	found, err := exec.LookPath("parley")
	if err != nil {
		return "", fmt.Errorf("%w: build it with make build, or name it with --parley", err)
	}
	return found, nil
}

// printJSON writes v indented.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeFile writes a report that is known whole before the file is made.
func writeFile(path string, write func(w io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// progress returns a function that shows on a terminal how far the work is.
func progress(out io.Writer, name string) func(done, total int) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(f) {
		return func(int, int) {}
	}
	return func(done, total int) {
		fmt.Fprintf(f, "\r%s: %d of %d", name, done, total)
		if done == total {
			fmt.Fprintln(f)
		}
	}
}
