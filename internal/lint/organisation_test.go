package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/internal/testkit"
)

// What the code calls a tenant is an organisation to people, who must not have to
// learn that two words mean one thing. OpenAI's API calls it a project.
var (
	otherWord = regexp.MustCompile(`(?i)\btenants?\b`)
	// databaseText marks statements, whose columns keep their names.
	databaseText = regexp.MustCompile(`\b(SELECT|UPDATE|INSERT|DELETE|WHERE|RETURNING)\b|c\.tenant = `)
	// pageText are the parts of a page's source that people read: text between tags,
	// labels, and strings of several words or with a capital letter.
	pageText = regexp.MustCompile(`(?i:>[^<>{}=;]*\btenants?\b[^<>{}=;]*[<{]` +
		`|(?:aria-label|title|placeholder|alt)="[^"]*\btenants?\b` +
		"|['\"`][^'\"`\\n]*\\w tenants?\\b|['\"`]tenants? [^'\"`\\n]*['\"`])|'Tenants?'")
)

// wordsOfPrograms are the strings that people do not read as prose: parameters of
// the admin page's own requests, what hashes are made of, and former names of
// settings that still work.
var wordsOfPrograms = map[string][]string{
	"gateway/ops/requests.go":  {`"tenant"`},
	"gateway/job/request.go":   {`"tenant "`},
	"gateway/job/scope.go":     {`"parley tenant salt 1\x00"`},
	"cli/settings/access.go":   {`"tenant-kv-share"`},
	"gateway/safety/policy.go": {`"organisations.%s and tenants.%s are the same: tenants is the former name of "`},
}

func TestPeopleReadOrganisation(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.generated || s.pkg == "sim" || strings.HasPrefix(s.pkg, "sim/") || s.pkg == "cli/simulate" {
			continue // a simulation has tenants that nobody is
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.Field:
				return n.Tag == nil
			case *ast.BasicLit:
				if n.Kind == token.STRING && otherWord.MatchString(n.Value) && !databaseText.MatchString(n.Value) &&
					!slices.Contains(wordsOfPrograms[s.path], n.Value) {
					t.Errorf("%s: %s: write organisation", s.fset.Position(n.Pos()), n.Value)
				}
			}
			return true
		})
	}
	for _, pattern := range []string{"README.md", "CHANGELOG.md", "docs/*.md", "deploy/*/*", "examples/*.yaml"} {
		complainInFiles(t, pattern, otherWord)
	}
	for _, pattern := range []string{"web/src/*/*.svelte", "web/src/*/*.ts", "web/src/*.svelte"} {
		complainInFiles(t, pattern, pageText)
	}
}

// complainInFiles reports the lines of files that match what is unwanted.
func complainInFiles(t *testing.T, pattern string, unwanted *regexp.Regexp) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(testkit.Root(), pattern))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // a folder
		}
		for i, line := range strings.Split(string(text), "\n") {
			line = comment.ReplaceAllString(line, "")
			if found := unwanted.FindString(line); found != "" && !strings.Contains(line, "`hot-tenant`") {
				t.Errorf("%s:%d: %q: write organisation", name, i+1, found)
			}
		}
	}
}

// comment matches the comments of a line of a page's source.
var comment = regexp.MustCompile(`(^|\s)//.*|/\*.*`)

func TestPageTextIsFound(t *testing.T) {
	for text, want := range map[string]bool{
		`<h2>Tenants <span>`:                       true,
		`<th>Tenant</th>`:                          true,
		`<label>Limits of the tenant {x}</label>`:  true,
		`aria-label="Tenants"`:                     true,
		`{ title: 'A new tenant' }`:                true,
		"`${n} keys of the tenant`":                true,
		`tenant: 'Tenant'`:                         true,
		`<tr data-tenant={t.id}>`:                  false,
		`import Tenants from './Tenants.svelte';`:  false,
		`const whose: By[] = ['key', 'tenant'];`:   false,
		`(list.filter((t) => t.tenant === id))`:    false,
		`affects: (row) => row.tenant === t.id,`:   false,
		`<td>{e.tenant}</td>`:                      false,
		`function open(t?: Tenant): void {`:        false,
		`<Tenants {made} keys={list} />`:           false,
		`<input id="key-tenant" bind:value={x} />`: false,
	} {
		if got := pageText.MatchString(text); got != want {
			t.Errorf("%s: found %t", text, got)
		}
	}
}
