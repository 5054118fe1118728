// Command gen writes the licences of all modules in go.mod to a JSON file, compressed by gzip:
//
//	go run ./internal/licenses/gen -out internal/licenses/modules.json.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

type module struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	License string `json:"license"`
	Text    string `json:"text"`
	dir     string
}

func main() {
	out := flag.String("out", "modules.json.gz", "file to write")
	flag.Parse()
	if err := generate(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(out string) error {
	modules, err := required()
	if err != nil {
		return err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	modules = append(modules, module{Path: "std", dir: strings.TrimSpace(string(root))})
	for i := range modules {
		if err := modules[i].read(); err != nil {
			return err
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(modules), w.Close()); err != nil {
		return err
	}
	return os.WriteFile(out, packed.Bytes(), 0o644)
}

// required returns the modules that go.mod names, each downloaded.
func required() (modules []module, err error) {
	var file struct {
		Require []struct{ Path, Version string }
	}
	text, err := exec.Command("go", "mod", "edit", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("go mod edit: %w", err)
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	for _, r := range file.Require {
		var got struct{ Dir string }
		text, err := exec.Command("go", "mod", "download", "-json", r.Path+"@"+r.Version).Output()
		if err != nil {
			return nil, fmt.Errorf("go mod download %s: %w", r.Path, err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			return nil, err
		}
		modules = append(modules, module{Path: r.Path, Version: r.Version, dir: got.Dir})
	}
	return modules, nil
}

// read fills in the licence from the module's files: every file named like a
// licence, and NOTICE files, which Apache-2.0 asks to pass on.
func (m *module) read() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	slices.SortStableFunc(entries, func(a, b os.DirEntry) int { return rank(a.Name()) - rank(b.Name()) })
	var texts [][]byte
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, func(p string) bool {
			return strings.HasPrefix(name, p)
		}) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.dir, e.Name()))
		if err != nil {
			return err
		}
		texts = append(texts, bytes.TrimSpace(text))
	}
	if len(texts) == 0 {
		return fmt.Errorf("%s %s: %s has no licence", m.Path, m.Version, m.dir)
	}
	m.Text = string(bytes.Join(texts, []byte("\n\n")))
	if m.License = identify(string(texts[0])); m.License == "" {
		return fmt.Errorf("%s %s: the licence in %s is not known to this program", m.Path, m.Version, m.dir)
	}
	return nil
}

// rank orders files so that the module's own licence comes before those of
// code that it contains, and notices come last.
func rank(name string) int {
	if strings.HasPrefix(strings.ToUpper(name), "NOTICE") {
		return 1000
	}
	return len(name)
}

// identify returns the SPDX identifier of a licence by sentences that only it has.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, l := range []struct{ id, sentence string }{
		{"Apache-2.0", "Apache License Version 2.0, January 2004"},
		{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
		{"ISC", "distribute this software for any purpose with or without fee is hereby granted"},
		{"BSD-3-Clause", "may be used to endorse or promote products derived"},
		{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
	} {
		if strings.Contains(text, l.sentence) {
			return l.id
		}
	}
	return ""
}
