package lint

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"parley/internal/lzma"
	"parley/internal/testkit"
)

// TestPTXIsPacked compares the packed GPU kernels that are part of the program with
// the compiled kernels. It stands here because this package is tested with every
// change: old packed files would compute with old kernels.
func TestPTXIsPacked(t *testing.T) {
	dir := filepath.Join(testkit.Root(), "compute", "cuda")
	packed, err := filepath.Glob(filepath.Join(dir, "packed", "*.lzma"))
	if err != nil || len(packed) == 0 {
		t.Fatalf("%d packed files, %v", len(packed), err)
	}
	var unpacked []byte
	size := 0
	for _, file := range packed {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := lzma.Decode(content, 64<<20)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		index, rest, _ := bytes.Cut(text, []byte("\n\n"))
		size += len(rest)
		unpacked = append(append(unpacked, index...), rest...)
	}
	files, err := filepath.Glob(filepath.Join(dir, "ptx", "*.ptx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of PTX, %v", len(files), err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		size -= len(want)
		if !bytes.Contains(unpacked, want) || !bytes.Contains(unpacked, []byte(filepath.Base(file)+" ")) {
			t.Errorf("%s is not packed as it is: run make pack-ptx", filepath.Base(file))
		}
	}
	if size != 0 {
		t.Errorf("the packed kernels hold %d bytes more than the files: run make pack-ptx", size)
	}
}

// TestAPIDescriptionIsPacked compares the packed description of the API, which is part of
// the program, with the one that is reviewed.
func TestAPIDescriptionIsPacked(t *testing.T) {
	path := filepath.Join(testkit.Root(), "gateway", "apidoc", "openapi.json")
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s.gz is not %s (%v): run go test ./gateway -run TestOpenAPI -rewrite", path, path, err)
	}
}
