package openai

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryParserIsFuzzed wants a fuzz target for each function that reads what
// a client sends.
func TestEveryParserIsFuzzed(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	parsers, fuzzed := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok || fn.Recv != nil:
			case strings.HasPrefix(fn.Name.Name, "Parse"):
				parsers[fn.Name.Name] = true
			case strings.HasPrefix(fn.Name.Name, "Fuzz"):
				ast.Inspect(fn, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						fuzzed[id.Name] = true
					}
					return true
				})
			}
		}
	}
	if len(parsers) < 15 {
		t.Errorf("only %d parsers were found", len(parsers))
	}
	for name := range parsers {
		if !fuzzed[name] {
			t.Errorf("%s has no fuzz target", name)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("limit=5&order=asc&after=x&purpose=batch", "created_at", "3600")
	f.Add("limit=-1", "", "1")
	f.Add("start_time=1&end_time=99999999&bucket_width=1m&group_by[]=model&page=page_60", "", "")
	f.Fuzz(func(t *testing.T, query, anchor, seconds string) {
		values, _ := url.ParseQuery(query)
		if p, err := ParsePage(values, 20, 100); err != nil {
			checkFuzzed(t, err)
		} else if p.Limit < 1 || p.Limit > 100 {
			t.Errorf("accepted %+v", p)
		}
		if q, err := ParseUsageQuery(values, "model"); err != nil {
			checkFuzzed(t, err)
		} else if n := len(q.Page(nil).Data); n > q.Limit || q.Limit > 1440 {
			t.Errorf("accepted %+v, %d buckets", q, n)
		}
		if n, err := ParseUploadExpiry(anchor, seconds); err != nil {
			checkFuzzed(t, err)
		} else if n != 0 && (n < outputSecondsMin || n > outputSecondsMax) {
			t.Errorf("accepted %d seconds", n)
		}
	})
}
