package main

import (
	"os"
	"path/filepath"
	"regexp"
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
