package cuda

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/compute/libcuda"
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
	files, err := filepath.Glob("ptx/*.ptx")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(sums)-1 {
		t.Errorf("%d files of PTX, %d checksums", len(files), len(sums)-1)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != sums[filepath.Base(f)] {
			t.Errorf("%s is not what the compiler wrote: run make generate", f)
		}
	}
}

// TestPTXIsPacked compares what the program unpacks with the compiled kernels: one
// file in four, since internal/lint compares all of them with every change.
func TestPTXIsPacked(t *testing.T) {
	files, err := filepath.Glob("ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for i := 0; i < len(files); i += 4 {
		file := files[i]
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readPTX(strings.TrimSuffix(filepath.Base(file), ".ptx"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not packed as it is (%v): run make pack-ptx", file, err)
		}
	}
	for _, missing := range []string{"linear_q9", "attend_7", "other", ""} {
		if _, err := readPTX(missing); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q gives %v", missing, err)
		}
	}
}

func TestNameChangesWithTheKernels(t *testing.T) {
	c := &CUDA{device: libcuda.Device{Name: "NVIDIA H200", Major: 9, Driver: 13000}}
	arithmetic, _, _ := strings.Cut(c.Name(), ",")
	sum := sha256.Sum256(ptxSums)
	if want := fmt.Sprintf("cuda NVIDIA H200 sm_90 kernels %x", sum[:4]); arithmetic != want {
		t.Errorf("the arithmetic is %q, want %q", arithmetic, want)
	}
}
