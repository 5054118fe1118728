package cuda

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
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

var rewrite = flag.Bool("rewrite", false, "pack the PTX again")

// TestPackPTX writes ptx.zip, with -rewrite. internal/lint compares it with the files.
func TestPackPTX(t *testing.T) {
	if !*rewrite {
		t.Skip("NOT RUN: it writes the archive; make pack-ptx")
	}
	files, err := filepath.Glob("ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	if err := os.WriteFile("ptx.zip", packed(t, files), 0o644); err != nil {
		t.Fatal(err)
	}
}

// packed returns the same archive for the same files.
func packed(t *testing.T, files []string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := w.CreateHeader(&zip.FileHeader{Name: filepath.Base(f), Method: zip.Deflate})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestNameChangesWithTheKernels(t *testing.T) {
	c := &CUDA{device: libcuda.Device{Name: "NVIDIA H200", Major: 9, Driver: 13000}}
	arithmetic, _, _ := strings.Cut(c.Name(), ",")
	sum := sha256.Sum256(ptxArchive)
	if want := fmt.Sprintf("cuda NVIDIA H200 sm_90 kernels %x", sum[:4]); arithmetic != want {
		t.Errorf("the arithmetic is %q, want %q", arithmetic, want)
	}
}
