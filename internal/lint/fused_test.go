package lint

import (
	"flag"
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var everyRule = flag.Bool("all", false, "check also what is compiled for arm64, with all dependencies")

// fused matches an instruction that multiplies and adds, with the place of its source.
var fused = regexp.MustCompile(`\(([^()]*\.go:\d+)\)\tFN?M(?:ADD|SUB)[DS]\t`)

// TestSimulatorRoundsEveryProduct compiles the simulator and all that it runs for arm64, where the compiler may round
// a product and a sum at once: then a run would not give the same bytes as on amd64. A conversion of the product
// prevents it, as in float64(x*y) + z.
func TestSimulatorRoundsEveryProduct(t *testing.T) {
	if !*everyRule {
		t.Skip("NOT RUN: compiles all dependencies for arm64: make cases")
	}
	args := append([]string{"build", "-gcflags=-S"}, simulated(t)...)
	build := exec.Command("go", args...)
	build.Dir = "../.."
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	assembly, err := build.CombinedOutput()
	if err != nil || !strings.Contains(string(assembly), "\tFMULD\t") {
		t.Fatalf("no assembly of %d packages: %v", len(args)-2, err)
	}
	seen := map[string]bool{}
	for _, match := range fused.FindAllStringSubmatch(string(assembly), -1) {
		if place := match[1]; !seen[place] {
			seen[place] = true
			t.Errorf("%s multiplies and adds with one rounding on arm64: write float64(x*y) + z", place)
		}
	}
}

// simulated lists the packages of the simulator and all of ours that it runs.
func simulated(t *testing.T) (paths []string) {
	list := exec.Command("go", "list", "-deps", "./sim", "./sim/plan")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if path == "parley" || strings.HasPrefix(path, "parley/") {
			paths = append(paths, path)
		}
	}
	return paths
}

// exactFunctions of package math have the same results on all machines: they are rounded once, or not at all.
var exactFunctions = []string{"Abs", "Ceil", "Copysign", "Dim", "FMA", "Float32bits", "Float32frombits", "Float64bits",
	"Float64frombits", "Floor", "Frexp", "Ilogb", "Inf", "IsInf", "IsNaN", "Ldexp", "Logb", "Max", "Min", "Mod", "Modf",
	"NaN", "Nextafter", "Nextafter32", "Remainder", "Round", "RoundToEven", "Signbit", "Sqrt", "Trunc"}

// TestSimulatorHasExactFunctions finds functions whose last bit depends on the machine in the simulator and what it
// runs: package internal/exactmath has others. Statistics of measurements, in internal/stat, are no part of a run.
func TestSimulatorHasExactFunctions(t *testing.T) {
	paths := simulated(t)
	for _, s := range sources(t) {
		path := strings.TrimSuffix("parley/"+s.pkg, "/.")
		if s.test || !slices.Contains(paths, path) || s.pkg == "internal/exactmath" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			name := sel.Sel.Name
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "math" && !slices.Contains(exactFunctions, name) &&
				!mathConstant.MatchString(name) &&
				!(s.pkg == "internal/stat" && name == "Erfinv") || name == "NormFloat64" || name == "ExpFloat64" {
				t.Errorf("%s: %s depends on the machine: use internal/exactmath", s.fset.Position(n.Pos()), name)
			}
			return true
		})
	}
}

// mathConstant matches constants of package math.
var mathConstant = regexp.MustCompile(`^(E|Pi|Phi|Sqrt(2|E|Pi|Phi)|Ln(2|10)|Log(2|10)E|(Max|Min|Smallest).*)$`)
