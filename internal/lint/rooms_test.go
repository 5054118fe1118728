package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A package reads as rooms if its files can be put on floors: what stands on one is
// used by the floors above it. These are the goals. Packages that miss one are in
// left.txt with how far they are from it today. ROOMS=1 prints the measures of all
// packages, and ROOMS=gateway/admin also which references of that package run upward.
const (
	groupFilesMax   = 12   // files that all need each other, directly or by others
	upwardPercent   = 10   // references that run from a lower file to a higher one
	upwardLeast     = 20   // in packages with fewer references than that a share says little
	packageLinesMax = 6000 // other than tests
	mutatedFields   = 12   // of a struct that more than one file changes
)

var (
	groupsLeft  = leftOf("group")  // files in the largest group
	upwardLeft  = leftOf("upward") // percent
	linesLeft   = leftOf("lines")
	mutatedLeft = leftOf("mutated") // files that change a large struct
)

// rooms are the measures of a package.
type rooms struct {
	files, lines, arrows int
	upward               []string
	group                []string
	// mutated maps each large struct to the files that change it.
	mutated map[string][]string
}

// share returns the upward arrows in percent, rounded up.
func (r *rooms) share() int {
	if r.arrows < upwardLeast {
		return 0
	}
	return (100*len(r.upward) + r.arrows - 1) / r.arrows
}

func TestPackagesAreRooms(t *testing.T) {
	groups, upward, lines, mutated := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	measured := measureRooms(sources(t))
	for _, pkg := range slices.Sorted(maps.Keys(measured)) {
		r := measured[pkg]
		if os.Getenv("ROOMS") != "" {
			fmt.Printf("%-22s %3d files %6d lines %5d arrows %3d%% upward, largest group %d\n",
				pkg, r.files, r.lines, r.arrows, r.share(), len(r.group))
			if os.Getenv("ROOMS") == pkg {
				fmt.Println(strings.Join(r.upward, "\n"))
			}
		}
		if n := len(r.group); n > groupFilesMax {
			groups[pkg] = n
			report(t, groupsLeft, pkg, []string{fmt.Sprintf("%s: %d files need each other, more than %d: %s", pkg, n,
				groupFilesMax, strings.Join(r.group, " "))})
		}
		if n := r.share(); n >= upwardPercent {
			upward[pkg] = n
			report(t, upwardLeft, pkg, []string{fmt.Sprintf("%s: %d of %d references between files run upward, %d%%",
				pkg, len(r.upward), r.arrows, n)})
		}
		if r.lines >= packageLinesMax {
			lines[pkg] = r.lines
			report(t, linesLeft, pkg, []string{fmt.Sprintf("%s has %d lines, not less than %d", pkg, r.lines,
				packageLinesMax)})
		}
		for name, files := range r.mutated {
			name = pkg + "." + name
			mutated[name] = len(files)
			report(t, mutatedLeft, name, []string{fmt.Sprintf(
				"%s has more than %d fields, and %d files change them: %s", name, mutatedFields, len(files),
				strings.Join(files, " "))})
		}
	}
	shrinking(t, "group", groupsLeft, groups)
	shrinking(t, "upward", upwardLeft, upward)
	shrinking(t, "lines", linesLeft, lines)
	shrinking(t, "mutated", mutatedLeft, mutated)
}

// measureRooms measures all packages, as they are built for this system.
func measureRooms(all []*source) map[string]*rooms {
	house := wholeHouse(all)
	measured := map[string]*rooms{}
	for _, pkg := range packages(all) {
		measured[pkg] = house.measure(pkg)
	}
	return measured
}

// A house checks the types of the tree's packages. Packages of other modules are taken
// for empty: what is said of them does not concern references between our files.
type house struct {
	standard types.ImporterFrom
	files    map[string][]*source
	checked  map[string]*types.Package
	info     map[string]*types.Info
}

// standardLibrary is read once for all tests.
var standardLibrary = sync.OnceValue(func() types.ImporterFrom {
	return importer.ForCompiler(positions, "source", nil).(types.ImporterFrom)
})

// whole is the house of the tree once it is checked, for all tests.
var whole *house

// wholeHouse checks the types of all packages.
func wholeHouse(all []*source) *house {
	if whole == nil {
		whole = newHouse(all)
		for _, pkg := range packages(all) {
			whole.load(pkg)
		}
	}
	return whole
}

func newHouse(all []*source) *house {
	h := &house{files: map[string][]*source{}, checked: map[string]*types.Package{}, info: map[string]*types.Info{}}
	h.standard = standardLibrary()
	for _, s := range all {
		if !s.test && s.builtHere() {
			h.files[s.pkg] = append(h.files[s.pkg], s)
		}
	}
	return h
}

// builtHere reports whether a file belongs to a build for this system, by its name and
// its first build constraint.
func (s *source) builtHere() bool {
	system := []string{runtime.GOOS, runtime.GOARCH, "unix"}
	parts := strings.Split(strings.TrimSuffix(path.Base(s.path), ".go"), "_")
	for _, part := range parts[1:] {
		if slices.Contains([]string{"linux", "darwin", "windows", "amd64", "arm64"}, part) &&
			!slices.Contains(system, part) {
			return false
		}
	}
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if rest, ok := strings.CutPrefix(c.Text, "//go:build "); ok {
				return buildsWith(rest, system)
			}
		}
	}
	return true
}

// buildsWith evaluates a build constraint.
func buildsWith(text string, tags []string) bool {
	for alternative := range strings.SplitSeq(text, "||") {
		all := true
		for term := range strings.SplitSeq(alternative, "&&") {
			name, negated := strings.CutPrefix(strings.Trim(term, " ()"), "!")
			all = all && slices.Contains(tags, name) != negated
		}
		if all {
			return true
		}
	}
	return false
}

// Import returns the package of a path.
func (h *house) Import(name string) (*types.Package, error) {
	own := strings.TrimPrefix(name, module+"/")
	if name == module {
		own = "."
	}
	if h.files[own] != nil {
		return h.load(own), nil
	}
	if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
		empty := types.NewPackage(name, path.Base(name))
		empty.MarkComplete()
		return empty, nil
	}
	return h.standard.ImportFrom(name, "", 0)
}

// load checks the types of a package. Errors are those of packages that are taken for
// empty.
func (h *house) load(pkg string) *types.Package {
	if done := h.checked[pkg]; done != nil {
		return done
	}
	info := &types.Info{
		Uses:       map[*ast.Ident]types.Object{},
		Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	config := types.Config{Importer: h, Error: func(error) {}, FakeImportC: true}
	var files []*ast.File
	for _, s := range h.files[pkg] {
		files = append(files, s.file)
	}
	checked, _ := config.Check(module+"/"+pkg, positions, files, info)
	h.checked[pkg], h.info[pkg] = checked, info
	return checked
}

func (h *house) measure(pkg string) *rooms {
	r := &rooms{mutated: map[string][]string{}}
	graph, owner := map[string]map[string]bool{}, h.definitions(pkg)
	for _, s := range h.files[pkg] {
		r.files++
		r.lines += s.lines
		graph[s.path] = map[string]bool{}
	}
	for _, s := range h.files[pkg] {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if to := owner[origin(h.info[pkg].Uses[id])]; to != "" && to != s.path {
					graph[s.path][to] = true
				}
			}
			return true
		})
	}
	r.arrows, r.upward = countUpward(graph)
	for _, group := range groupsOf(graph) {
		if len(group) > len(r.group) {
			r.group = group
		}
	}
	h.mutations(pkg, r)
	return r
}

// origin returns what a generic object was declared as.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Func:
		return o.Origin()
	case *types.Var:
		return o.Origin()
	}
	return o
}

// definitions maps what a package declares, with fields and methods, to its files.
func (h *house) definitions(pkg string) map[types.Object]string {
	owner, at := map[types.Object]string{}, func(o types.Object) string {
		return positions.Position(o.Pos()).Filename
	}
	scope := h.checked[pkg].Scope()
	for _, name := range scope.Names() {
		o := scope.Lookup(name)
		owner[o] = at(o)
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType {
			continue
		}
		for m := range named.Methods() {
			owner[m] = at(m)
		}
		switch under := named.Underlying().(type) {
		case *types.Struct:
			for f := range under.Fields() {
				owner[f] = at(f)
			}
		case *types.Interface:
			for m := range under.ExplicitMethods() {
				owner[m] = at(m)
			}
		}
	}
	return owner
}

// countUpward puts the files of a package on floors so that few references run
// upward, and returns how many there are and those that do. The order is that of Eades,
// Lin and Smyth: files that use nothing that is left go to the bottom, files that
// nothing uses to the top, and else the file goes to the top that uses most beside how
// much it is used.
func countUpward(graph map[string]map[string]bool) (arrows int, upward []string) {
	left := map[string]bool{}
	for file := range graph {
		left[file] = true
	}
	uses := func(file string) (out, in int) {
		for other := range left {
			if other != file && graph[file][other] {
				out++
			}
			if other != file && graph[other][file] {
				in++
			}
		}
		return out, in
	}
	var top, bottom []string
	for len(left) > 0 {
		best, most := "", 0
		for _, file := range slices.Sorted(maps.Keys(left)) {
			out, in := uses(file)
			if out == 0 {
				best, most = file, -1
				break
			}
			if in == 0 {
				out += len(graph) // before all others
			}
			if best == "" || out-in > most {
				best, most = file, out-in
			}
		}
		if delete(left, best); most == -1 {
			bottom = append(bottom, best)
		} else {
			top = append(top, best)
		}
	}
	slices.Reverse(bottom)
	floor := map[string]int{}
	for i, file := range append(top, bottom...) {
		floor[file] = i
	}
	for from, to := range graph {
		for other := range to {
			arrows++
			if floor[other] < floor[from] {
				upward = append(upward, from+" -> "+other)
			}
		}
	}
	slices.Sort(upward)
	return arrows, upward
}

// groupsOf returns the sets of files that reach each other.
func groupsOf(graph map[string]map[string]bool) (groups [][]string) {
	reach := map[string]map[string]bool{}
	for file := range graph {
		reach[file] = map[string]bool{}
		for next := []string{file}; len(next) > 0; {
			at := next[0]
			next = next[1:]
			for other := range graph[at] {
				if !reach[file][other] {
					reach[file][other] = true
					next = append(next, other)
				}
			}
		}
	}
	seen := map[string]bool{}
	for _, file := range slices.Sorted(maps.Keys(graph)) {
		if seen[file] {
			continue
		}
		var group []string
		for _, other := range slices.Sorted(maps.Keys(graph)) {
			if other == file || reach[file][other] && reach[other][file] {
				seen[other] = true
				group = append(group, other)
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// mutations finds the files that assign to fields of large structs.
func (h *house) mutations(pkg string, r *rooms) {
	large := map[types.Object]string{}
	scope := h.checked[pkg].Scope()
	for _, name := range scope.Names() {
		under, ok := scope.Lookup(name).Type().Underlying().(*types.Struct)
		if ok && under.NumFields() > mutatedFields {
			for f := range under.Fields() {
				large[f] = name
			}
		}
	}
	for _, s := range h.files[pkg] {
		ast.Inspect(s.file, func(n ast.Node) bool {
			for _, target := range assigned(n) {
				for _, field := range selected(target) {
					if name := large[origin(h.info[pkg].Uses[field])]; name != "" &&
						!slices.Contains(r.mutated[name], s.path) {
						r.mutated[name] = append(r.mutated[name], s.path)
					}
				}
			}
			return true
		})
	}
	maps.DeleteFunc(r.mutated, func(_ string, files []string) bool { return len(files) < 2 })
}

// assigned returns what a statement assigns to.
func assigned(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	}
	return nil
}

// selected returns the fields on the way to what is assigned to: in a.b[i].c = 1 both
// c and b are changed.
func selected(target ast.Expr) (fields []*ast.Ident) {
	for {
		switch e := target.(type) {
		case *ast.SelectorExpr:
			fields, target = append(fields, e.Sel), e.X
		case *ast.IndexExpr:
			target = e.X
		case *ast.ParenExpr:
			target = e.X
		case *ast.StarExpr:
			target = e.X
		default:
			return fields
		}
	}
}

func TestFloorsOfFiles(t *testing.T) {
	uses := func(names ...string) map[string]bool {
		set := map[string]bool{}
		for _, name := range names {
			set[name] = true
		}
		return set
	}
	graph := map[string]map[string]bool{
		"top":    uses("a", "bottom"),
		"a":      uses("b"),
		"b":      uses("c", "bottom"),
		"c":      uses("a"),
		"bottom": uses(),
	}
	if arrows, upward := countUpward(graph); arrows != 6 || len(upward) != 1 {
		t.Errorf("%d of %d arrows run upward, not 1 of 6", len(upward), arrows)
	}
	groups := groupsOf(graph)
	slices.SortFunc(groups, func(a, b []string) int { return len(b) - len(a) })
	if len(groups) != 3 || !slices.Equal(groups[0], []string{"a", "b", "c"}) {
		t.Errorf("groups %q", groups)
	}
}
