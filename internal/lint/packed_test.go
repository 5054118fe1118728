package lint

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"parley/internal/testkit"
)

// TestPTXIsPacked compares the archive of GPU kernels that is part of the program with
// the compiled kernels. It stands here because this package is tested with every
// change: an old archive would compute with old kernels.
func TestPTXIsPacked(t *testing.T) {
	dir := filepath.Join(testkit.Root(), "compute", "cuda")
	archive, err := zip.OpenReader(filepath.Join(dir, "ptx.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files, err := filepath.Glob(filepath.Join(dir, "ptx", "*.ptx"))
	if err != nil || len(files) == 0 || len(files) != len(archive.File) {
		t.Errorf("%d files, %d in ptx.zip, %v: run make pack-ptx", len(files), len(archive.File), err)
	}
	for _, file := range files {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := fs.ReadFile(archive, filepath.Base(file))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("ptx.zip does not hold %s as it is (%v): run make pack-ptx", filepath.Base(file), err)
		}
	}
}
