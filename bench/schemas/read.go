package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A source is one schema, and values that are known to satisfy it or not.
type source struct {
	name string
	// set is the folder that the schema stands in.
	set    string
	schema json.RawMessage
	tests  []example
	// draft is what the schema's folder says about its dialect, nil for the newest.
	draft *jsonschema.Draft
	// suite: the schema tests implementations, and many like it cannot be satisfied at all.
	suite bool
}

// An example is a value of which is known whether it satisfies the schema.
type example struct {
	Data  json.RawMessage `json:"data"`
	Valid bool            `json:"valid"`
}

// drafts are the dialects by the names of folders of the JSON-Schema-Test-Suite.
var drafts = map[string]*jsonschema.Draft{
	"draft4":       jsonschema.Draft4,
	"draft6":       jsonschema.Draft6,
	"draft7":       jsonschema.Draft7,
	"draft2019-09": jsonschema.Draft2019,
	"draft2020-12": jsonschema.Draft2020,
}

// draftsUnknown are folders of dialects that neither the engine nor the validator reads.
var draftsUnknown = []string{"draft3", "v1", "draft-next", "remotes"}

// read returns the schemas of all JSON files under root.
func read(root string) (all []source, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(draftsUnknown, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".json":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		list, err := parse(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name, _ := filepath.Rel(root, path)
		for i, s := range list {
			s.name, s.set = name, filepath.Dir(name)
			if s.suite {
				s.name += ":" + strconv.Itoa(i)
				s.draft, s.set = draftOf(path)
			}
			all = append(all, s)
		}
		return nil
	})
	return all, err
}

// draftOf returns the dialect that a file's path names, and the folder that names it.
func draftOf(path string) (draft *jsonschema.Draft, set string) {
	for elem := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if d := drafts[elem]; d != nil {
			draft, set = d, "suite/"+elem
		}
	}
	return draft, set
}

// parse reads a file: a schema, a schema with examples, or a list of those.
func parse(data []byte) ([]source, error) {
	type group struct {
		Schema json.RawMessage `json:"schema"`
		Tests  []example       `json:"tests"`
	}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		var list []group
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, err
		}
		var all []source
		for _, g := range list {
			all = append(all, source{schema: g.Schema, tests: g.Tests, suite: true})
		}
		return all, nil
	}
	var g group
	if err := json.Unmarshal(data, &g); err == nil && g.Schema != nil && g.Tests != nil {
		return []source{{schema: g.Schema, tests: g.Tests}}, nil
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("not valid JSON")
	}
	return []source{{schema: data}}, nil
}
