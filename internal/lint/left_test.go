package lint

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// leftText is what is left to mend: a rule, a package and how often it still
// breaks the rule, one per line. Numbers only go down. Code that moves takes its
// share along: add the new package and lower the number of the old one.
//
// LINT_ALL=1 go test ./internal/lint lists every offence; LINT_LEFT=FILE writes
// the list as it is now.
//
//go:embed testdata/left.txt
var leftText string

var (
	wordsLeft       = leftOf("words")       // banned wordings in strings and comments
	documentsLeft   = leftOf("documents")   // the same in documents
	columnsLeft     = leftOf("columns")     // lines of more than 120 columns
	packedLeft      = leftOf("packed")      // struct literals with fields that share lines
	shadowLeft      = leftOf("shadows")     // names that shadow builtins
	participleTypes = leftOf("participles") // types named by a participle
	crowdedNames    = leftOf("crowded")     // type names in too many packages, with how many
)

func leftOf(rule string) map[string]int {
	left := map[string]int{}
	for line := range strings.Lines(leftText) {
		var of, name string
		var n int
		if _, err := fmt.Sscan(line, &of, &name, &n); err != nil {
			panic(fmt.Sprintf("left.txt: %q: %v", line, err))
		}
		if of == rule {
			left[name] = n
		}
	}
	return left
}

// report prints what a package does wrong, unless that is left for later.
func report(t *testing.T, left map[string]int, pkg string, complaints []string) {
	t.Helper()
	if _, ok := left[pkg]; ok && os.Getenv("LINT_ALL") == "" {
		return
	}
	for _, complaint := range complaints {
		t.Error(complaint)
	}
}

// shrinking fails if a package breaks a rule more often than its number in the
// list, or no longer breaks it.
func shrinking(t *testing.T, rule string, left, found map[string]int) {
	t.Helper()
	for name, most := range left {
		switch n := found[name]; {
		case n > most:
			t.Errorf(
				"%s: %d offences against %s, more than the %d in left.txt: mend what was added (LINT_ALL=1 lists them)",
				name, n, rule, most)
		case n == 0:
			t.Errorf("%s no longer breaks the rule %s: remove the line from testdata/left.txt", name, rule)
		}
	}
	if name := os.Getenv("LINT_LEFT"); name != "" {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, key := range slices.Sorted(maps.Keys(found)) {
			if found[key] > 0 {
				fmt.Fprintln(f, rule, key, found[key])
			}
		}
	}
}
