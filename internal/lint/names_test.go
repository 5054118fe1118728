package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A type name in more packages than this means something else in each, and a
// search for it finds all of them.
const packagesPerTypeName = 3

// commonNames are the names that Go programs give to these things everywhere.
var commonNames = []string{
	"config", "options", "state", "stats", "limits", "event", "entry", "record", "message", "result", "report",
	"key", "value", "kind", "node", "list", "page", "row", "file", "function", "token", "store", "source",
	"model", "worker", "device", "usage", "format", "scratch", "runner", "client", "server", "request",
}

// typeSpecs visits the types that the product's own packages declare at the
// top of a file.
func typeSpecs(files []*source, visit func(*source, *ast.TypeSpec)) {
	for _, s := range files {
		if s.test || s.generated {
			continue
		}
		for _, decl := range s.file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok {
					visit(s, typ)
				}
			}
		}
	}
}

func TestTypeNamesAreFewPackages(t *testing.T) {
	packages := map[string]map[string]bool{}
	typeSpecs(sources(t), func(s *source, typ *ast.TypeSpec) {
		name := strings.ToLower(typ.Name.Name)
		if packages[name] == nil {
			packages[name] = map[string]bool{}
		}
		packages[name][s.pkg] = true
	})
	crowded := map[string]int{}
	for name, in := range packages {
		if len(in) <= packagesPerTypeName || slices.Contains(commonNames, name) {
			continue
		}
		crowded[name] = len(in)
		if _, ok := crowdedNames[name]; !ok {
			t.Errorf("type %s stands in %d packages, more than %d: %v",
				name, len(in), packagesPerTypeName, slices.Sorted(maps.Keys(in)))
		}
	}
	shrinking(t, "crowded", crowdedNames, crowded)
}

// participles are names of types that say what was done to a thing, or how it
// is, rather than what it is.
var participles = regexp.MustCompile(
	`(?i)^(said|told|kept|found|begun|whole|sofar|telling|apart|beside|given|taken|seen|` +
		`done|held|gone|left|made|sent|spent|lost|known|written|\w+ed)$`)

// nouns end like participles.
var nouns = []string{"seed", "need", "speed", "feed", "embed", "shed", "signed", "unsigned", "undefined"}

func TestTypeNamesAreNouns(t *testing.T) {
	found := map[string]int{}
	typeSpecs(sources(t), func(s *source, typ *ast.TypeSpec) {
		name := typ.Name.Name
		if !participles.MatchString(name) || slices.Contains(nouns, strings.ToLower(name)) {
			return
		}
		found[s.pkg]++
		report(t, participleTypes, s.pkg,
			[]string{fmt.Sprintf("%s: type %s is a participle; find the noun", s.fset.Position(typ.Pos()), name)})
	})
	shrinking(t, "participles", participleTypes, found)
}

// conventional are builtins that methods may be named after: a method shadows
// nothing, and other words for these are worse.
var conventional = []string{"close", "clear", "copy", "len", "print"}

func TestBuiltinsAreNotShadowed(t *testing.T) {
	left := map[string]int{}
	for _, s := range sources(t) {
		if s.generated {
			continue
		}
		for _, complaint := range shadows(s) {
			left[s.pkg]++
			report(t, shadowLeft, s.pkg, []string{complaint})
		}
	}
	shrinking(t, "shadows", shadowLeft, left)
}

// shadows lists the variables, parameters, functions and methods of a file that
// are named like a builtin of the language.
func shadows(s *source) (complaints []string) {
	declare := func(id *ast.Ident) {
		if id != nil && types.Universe.Lookup(id.Name) != nil {
			complaints = append(complaints, fmt.Sprintf("%s: %s is a builtin", s.fset.Position(id.Pos()), id.Name))
		}
	}
	fields := func(list *ast.FieldList) {
		if list == nil {
			return
		}
		for _, field := range list.List {
			for _, id := range field.Names {
				declare(id)
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil || !slices.Contains(conventional, n.Name.Name) {
				declare(n.Name)
			}
			fields(n.Recv)
		case *ast.FuncType:
			fields(n.Params)
			fields(n.Results)
		case *ast.ValueSpec:
			for _, id := range n.Names {
				declare(id)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					id, _ := e.(*ast.Ident)
					declare(id)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				key, _ := n.Key.(*ast.Ident)
				value, _ := n.Value.(*ast.Ident)
				declare(key)
				declare(value)
			}
		}
		return true
	})
	return complaints
}

// inverted are names of booleans that deny something: read under a negation, they take two thoughts.
var inverted = regexp.MustCompile(`^(?:[nN]o|[nN]ot|[wW]ithout|[dD]isabled?|[dD]ont|[nN]ever)[A-Z]`)

// zeroIsUsual are the settings and properties that deny something, because what their zero value means must be the
// usual case, which is what leaving them out selects.
var zeroIsUsual = []string{
	"engine/kv NoTokens", "engine/sched NoPrefixCache", "fleet NoTransfers", "fleet/scale NoForecast",
	"fleet/scale NoWarmPool", "gateway NoAddresses", "gateway NoTitles", "gateway/conversations NoTitles",
	"gateway/exchange NoAddresses", "internal/testkit NoRanges",
	"sim NoCache", "sim NoForecast", "sim NoQueue", "sim NoWarmPool",
	"worker/host NoSpeculation", "worker/workertest NoChoices", "worker/workertest NoLogprobs",
	"worker/workertest NoRegex", "worker/workertest NoResume", "worker/workertest NoStopTokens",
}

func TestBooleansAffirm(t *testing.T) {
	met := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || s.generated {
			continue
		}
		deny := func(names []*ast.Ident, typ ast.Expr) {
			if id, ok := typ.(*ast.Ident); !ok || id.Name != "bool" {
				return
			}
			for _, name := range names {
				if !inverted.MatchString(name.Name) {
					continue
				}
				known := s.pkg + " " + name.Name
				if met[known] = true; !slices.Contains(zeroIsUsual, known) {
					t.Errorf("%s: the boolean %s denies something; name what is true when it is set",
						s.fset.Position(name.Pos()), name.Name)
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				deny(n.Names, n.Type)
			case *ast.ValueSpec:
				deny(n.Names, n.Type)
			}
			return true
		})
	}
	for _, known := range zeroIsUsual {
		if !met[known] {
			t.Errorf("boolean %s does not exist: remove it from the list", known)
		}
	}
}
