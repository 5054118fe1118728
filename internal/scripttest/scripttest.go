// Package scripttest runs tests that are texts: a script's commands, each followed by the
// trace of what it did. The trace is part of the file, so that a reader sees what happens
// without running anything, and a change of behaviour is a difference to review.
//
//	config depth=2
//	push a tenant=x prompt=10
//	| refused: full, wait 1s
//
// A line that begins with | is trace, and one that begins with # a comment.
// go test -rewrite writes the traces as they are now.
package scripttest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the traces that the scripts give now; review the difference")

// A Script is one that runs.
type Script struct {
	*testing.T
	trace strings.Builder
}

// Run runs each script in testdata: begin returns what executes its commands.
func Run(t *testing.T, begin func(s *Script) (execute func(command Words))) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) { run(t, path, begin) })
	}
}

func run(t *testing.T, path string, begin func(s *Script) func(command Words)) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch got := Trace(t, string(text), begin); {
	case got == string(text):
	case *rewrite:
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the trace is now\n%s\nwant\n%s", path, got, text)
	}
}

// Trace runs one script and returns it with its trace.
func Trace(t *testing.T, text string, begin func(s *Script) (execute func(command Words))) string {
	s := &Script{T: t}
	execute := begin(s)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			continue
		}
		fmt.Fprintln(&s.trace, line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			execute(words)
		}
	}
	return s.trace.String()
}

// Say adds a line to the trace.
func (s *Script) Say(format string, args ...any) { fmt.Fprintf(&s.trace, "| "+format+"\n", args...) }

// Words are a command and its arguments.
type Words []string

// Value returns the text of the argument key=text, empty if there is none.
func (w Words) Value(key string) string {
	for _, word := range w {
		if text, ok := strings.CutPrefix(word, key+"="); ok {
			return text
		}
	}
	return ""
}

// Number returns the number of the argument key=number, 0 if there is none.
func (w Words) Number(key string) int { return Number(w.Value(key)) }

// Has reports whether a word is among the arguments.
func (w Words) Has(word string) bool { return slices.Contains(w, word) }

// Number returns the number that a text is, 0 if it is empty. A text that is not a number
// is a mistake in a script.
func Number(text string) (n int) {
	if _, err := fmt.Sscan(text, &n); err != nil && text != "" {
		panic(fmt.Sprintf("%q is not a number", text))
	}
	return n
}
