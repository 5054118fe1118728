package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"parley/internal/testkit"
)

// TestEveryCommandHasAManual: what users can call has a page with its purpose,
// its flags and the exit codes, and the formatter has nothing to complain of.
func TestEveryCommandHasAManual(t *testing.T) {
	root := newRoot()
	pages := map[string]string{}
	for _, p := range manPages(root) {
		var out strings.Builder
		if err := p.write(&out); err != nil {
			t.Fatal(err)
		}
		pages[p.name()] = out.String()
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		page := pages[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"]
		for _, part := range []string{".TH ", ".SH NAME\n", ".SH DESCRIPTION\n", ".SH EXIT STATUS\n", roff(c.Short)} {
			if !strings.Contains(page, part) {
				t.Errorf("the manual of %q lacks %q", c.CommandPath(), part)
			}
		}
		if c.Short == "" {
			t.Errorf("%q has no purpose", c.CommandPath())
		}
		for line := range strings.Lines(c.Long) {
			if n := utf8.RuneCountInString(line); n > 120 {
				t.Errorf("%q is described in a line of %d columns: %s", c.CommandPath(), n, line)
			}
		}
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" {
				visit(sub)
			}
		}
	}
	visit(root)
	for _, part := range []string{`\-\-verbose`, `\-m, \-\-model`, "git diff | parley chat", "PARLEY_API_KEY"} {
		if !strings.Contains(pages["parley-chat.1"], part) {
			t.Errorf("the manual of chat lacks %q", part)
		}
	}
	checkFormat(t, pages)
}

func checkFormat(t *testing.T, pages map[string]string) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff to format the pages with")
	}
	for name, page := range pages {
		cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww")
		cmd.Stdin = strings.NewReader(page)
		var complaints strings.Builder
		cmd.Stderr = &complaints
		text, err := cmd.Output()
		if err != nil || complaints.Len() > 0 || len(text) < 200 {
			t.Errorf("%s: %v, %d bytes\n%s", name, err, len(text), complaints.String())
		}
	}
}

// TestDocumentedExitCodes compares the guide with the table.
func TestDocumentedExitCodes(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "terminal.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range exitCodes {
		if row := fmt.Sprintf("\n| %d | %s |\n", c.code, c.meaning); !strings.Contains(string(guide), row) {
			t.Errorf("docs/terminal.md lacks %q", row)
		}
	}
}
