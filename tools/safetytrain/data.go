package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// A row is one text of the data with what its source says of it.
type row struct {
	Text   string   `json:"text"`
	System string   `json:"system"`
	Label  int      `json:"label"`
	Cats   []string `json:"cats"`
	Source string   `json:"source"`
	Spans  []span   `json:"spans"`
	// group is the least key of the texts that are nearly this one, by which
	// it is decided on which side of a split they all stand.
	group uint64
	// relatives is the same of the texts that share passages with it.
	relatives uint64
}

// A span is a stretch of a text that identifies a person, counted in characters.
type span struct {
	Type  string `json:"entity_type"`
	Value string `json:"entity_value"`
	Start int    `json:"start_position"`
	End   int    `json:"end_position"`
}

// has reports whether a row has a category.
func (r *row) has(cat string) bool { return slices.Contains(r.Cats, cat) }

// load reads all sets in a folder, groups near duplicates, and returns the
// rows in the order of the files' names.
func load(dir string) ([]*row, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.jsonl.gz in %s: say with -data where the safety data is", dir)
	}
	sort.Strings(files)
	var rows []*row
	for _, name := range files {
		read, err := loadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, read...)
	}
	groupNearDuplicates(rows)
	return rows, nil
}

func loadFile(name string) ([]*row, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var rows []*row
	lines := bufio.NewReaderSize(plain, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			r := &row{}
			if err := json.Unmarshal([]byte(line), r); err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
