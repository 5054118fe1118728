package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parley/internal/testkit"
)

// flagsOfOthers are what the documents say of other programs.
var flagsOfOthers = map[string]bool{"--gpus": true, "--env-file": true, "--settings": true, "--profile": true,
	"--metrics": true, "--enable-metrics": true, "--enable-sleep-mode": true, "--replicas": true,
	"--kv-events-config": true, "--reasoning-parser": true, "--sleep-idle-seconds": true,
	"--auto-scaling-group-name": true, "--desired-capacity": true, "--home-dir": true, "--shell": true, "--now": true,
	"--kv-transfer-config": true, "--disaggregation-mode": true,
	"--rm": true, "--restart": true, "--stop-timeout": true}

// TestPicturesAreShown wants every picture of the documents to exist, to be one that a page test makes, and to be
// shown.
func TestPicturesAreShown(t *testing.T) {
	root := testkit.Root()
	text := func(pattern string) (all string) {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no files %s, %v", pattern, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all += string(b)
		}
		return all
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`img/([a-z0-9-]+)\.png`).FindAllStringSubmatch(text("docs/*.md")+
		text("README.md"), -1) {
		shown[m[1]] = true
	}
	var made []*regexp.Regexp
	for _, m := range regexp.MustCompile("shot\\(\\w+, ['`]([^'`]+)['`]\\)").FindAllStringSubmatch(
		text("test/web/*.test.mjs"), -1) {
		name := regexp.MustCompile(`\$\{\w+\}`).ReplaceAllString(m[1], "[a-z0-9-]+")
		made = append(made, regexp.MustCompile("^"+name+"$"))
	}
	pictures, err := os.ReadDir(filepath.Join(root, "docs", "img"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		name := strings.TrimSuffix(p.Name(), ".png")
		if !shown[name] {
			t.Errorf("docs/img/%s is shown in no document", p.Name())
		}
		if !slices.ContainsFunc(made, func(r *regexp.Regexp) bool { return r.MatchString(name) }) {
			t.Errorf("docs/img/%s is made by no page test", p.Name())
		}
		delete(shown, name)
	}
	for name := range shown {
		t.Errorf("docs/img/%s.png does not exist: run make screenshots", name)
	}
}

// TestDocumentsNameRealFlags wants every flag in the documents to be one of a command,
// or one of another program's.
func TestDocumentsNameRealFlags(t *testing.T) {
	known := map[string]bool{"--help": true, "--version": true}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		add := func(f *pflag.Flag) { known["--"+f.Name] = true }
		c.Flags().VisitAll(add)
		c.PersistentFlags().VisitAll(add)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	documents, err := filepath.Glob(filepath.Join(testkit.Root(), "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents, %v", err)
	}
	flag := regexp.MustCompile("(?:^|[\\s`(\\[|])(--[a-z][a-z0-9-]+)")
	for _, path := range append(documents, filepath.Join(testkit.Root(), "README.md")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, m := range flag.FindAllStringSubmatch(line, -1) {
				if !known[m[1]] && !flagsOfOthers[m[1]] {
					t.Errorf("%s: no command has %s: %s", filepath.Base(path), m[1], line)
				}
			}
		}
	}
}
