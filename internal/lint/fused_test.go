package lint

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// fused matches an instruction that multiplies and adds, with the place of its source.
var fused = regexp.MustCompile(`\(([^()]*\.go:\d+)\)\tFN?M(?:ADD|SUB)[DS]\t`)

// TestSimulatorRoundsEveryProduct compiles the simulator and all that it runs for arm64, where the compiler may round
// a product and a sum at once: then a run would not give the same bytes as on amd64. A conversion of the product
// prevents it, as in float64(x*y) + z.
func TestSimulatorRoundsEveryProduct(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "./sim", "./sim/plan")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-gcflags=-S"}
	for path := range strings.FieldsSeq(string(out)) {
		if path == "parley" || strings.HasPrefix(path, "parley/") {
			args = append(args, path)
		}
	}
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
