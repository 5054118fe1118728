package cuda

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sourcesSum is the checksum of all kernels and of the script that compiles them.
func sourcesSum(t *testing.T) string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"kernels/*.cu", "kernels/*.cuh", "kernels/generate.sh"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		slices.Sort(found)
		names = append(names, found...)
	}
	h := sha256.New()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(text)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestKernelsAreCompiled compares the checksums that make generate wrote with
// the sources and the PTX that is part of the binary.
func TestKernelsAreCompiled(t *testing.T) {
	text, err := os.ReadFile("ptx/SUMS")
	if err != nil {
		t.Fatal(err)
	}
	if onDevice {
		t.Skip("sources are not carried to the device")
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	if got := sourcesSum(t); got != sums["sources"] {
		t.Error("the kernels changed after they were compiled: run make generate")
	}
	files, err := ptxFiles.ReadDir("ptx")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(sums)-1 {
		t.Errorf("%d files of PTX, %d checksums", len(files), len(sums)-1)
	}
	for _, f := range files {
		text, err := ptxFiles.ReadFile("ptx/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != sums[f.Name()] {
			t.Errorf("%s is not what the compiler wrote: run make generate", f.Name())
		}
	}
}
