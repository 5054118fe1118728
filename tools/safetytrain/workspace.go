package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"parley/gateway/safety"
)

// Files as the tools of coding agents show them: source code, documents,
// configuration. They are full of orders to people and to compilers, and
// nothing in them is meant for the model that reads them. They are trained on and
// never scored. They come from what every machine that builds Parley has: the Go
// distribution and the modules of the build.

// fileQuotas are how many files are taken by the ends of their names.
var fileQuotas = map[string]int{
	".go": 840, ".c": 220, ".h": 120, ".md": 380, ".yaml": 140, ".yml": 180, ".json": 140, ".txt": 260, ".proto": 80,
	".test": 80, ".s": 60, ".sh": 80, ".bash": 40, ".toml": 50, ".tcl": 40, ".mod": 40, ".js": 80, ".html": 80,
	".css": 20, ".py": 40, ".rb": 30, ".mk": 20, ".golden": 60, ".xml": 20, ".conf": 20, ".pl": 20, ".in": 20,
}

// fileBytesMax bounds the files that are read. Of one, pieceBytes are shown, or
// two or four times as many.
const (
	fileBytesMax = 256 << 10
	pieceBytes   = 1500
)

// goFolders returns the folders of the Go distribution and of the modules of
// the build in the current folder.
func goFolders() ([]string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	list, err := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Dir}}{{end}}{{end}}", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps ./...: %w: run safetytrain in the root of the repository", err)
	}
	folders := append(strings.Fields(string(list)), strings.TrimSpace(string(root)))
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// A shownFile is a file by its name in the folder that it was found in.
type shownFile struct {
	path, name string
	key        uint64
}

// filesIn lists the files of folders, those with the least hashes of each kind.
func filesIn(folders []string, quotas map[string]int) (list []shownFile, err error) {
	kinds := map[string][]shownFile{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			kind := filepath.Ext(path)
			if quotas[kind] == 0 || !d.Type().IsRegular() {
				return nil
			}
			name := filepath.ToSlash(strings.TrimPrefix(path, folder+string(filepath.Separator)))
			kinds[kind] = append(kinds[kind], shownFile{path, name, xxhash.Sum64String(name)})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for kind, files := range kinds {
		slices.SortFunc(files, func(a, b shownFile) int {
			return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.path, b.path))
		})
		list = append(list, files[:min(len(files), quotas[kind])]...)
	}
	slices.SortFunc(list, func(a, b shownFile) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}

// show returns a piece of a file in one of the ways in which tools show files;
// nothing if it is not text.
func (f *shownFile) show(most int) (string, error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return "", err
	}
	if len(data) > fileBytesMax || !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return "", nil
	}
	lines := strings.Split(string(data), "\n")
	from := 0
	if f.key%2 == 0 {
		from = int(f.key / 2 % uint64(len(lines)))
	}
	var shown strings.Builder
	for i := from; i < len(lines) && shown.Len() < most; i++ {
		shown.WriteString(f.line(lines[i], i+1))
	}
	return shown.String(), nil
}

// line is a line of a file with its number, as cat, grep, diff and the agents'
// own tools write it.
func (f *shownFile) line(text string, number int) string {
	switch f.key / 16 % 8 {
	case 0, 1:
		return fmt.Sprintf("%6d\t%s\n", number, text)
	case 2:
		return fmt.Sprintf("%d: %s\n", number, text)
	case 3:
		return fmt.Sprintf("%s:%d:%s\n", f.name, number, text)
	case 4:
		return "+" + text + "\n"
	}
	return text + "\n"
}

// workspaceExamples are pieces of files, clean as what a user pastes and as
// what a tool brings.
func workspaceExamples() (list []*example, err error) {
	folders, err := goFolders()
	if err != nil {
		return nil, err
	}
	files, err := filesIn(folders, fileQuotas)
	if err != nil {
		return nil, err
	}
	for i := range files {
		text, err := files[i].show(pieceBytes << (files[i].key / 4 % 3))
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		r := &row{Text: text, Source: "seed", group: 1}
		sample := safety.Extract(text, "")
		list = append(list,
			&example{row: r, sample: sample, target: clean(), weight: corpusWeight, seed: true},
			&example{row: r, sample: sample, target: orderTarget(0), weight: corpusWeight, brought: true, seed: true})
	}
	return list, nil
}
