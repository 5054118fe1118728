package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAvailableBytes(t *testing.T) {
	n, err := AvailableBytes()
	if err != nil || n < 1<<20 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestMemAvailable(t *testing.T) {
	n, err := memAvailable([]byte("MemTotal: 9 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n"))
	if n != 2<<20 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := memAvailable([]byte("MemTotal: 9 kB\n")); err == nil {
		t.Error("a system that does not tell was not noticed")
	}
}

func TestGroupFree(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("memory.max", "max\n")
	write("memory.current", "700\n")
	if n := groupFree(dir, "memory.max", "memory.current", "file"); n < 1<<60 {
		t.Errorf("a group without a limit leaves %d", n)
	}
	write("memory.max", "1000\n")
	write("memory.stat", "anon 600\nfile 100\nfile_mapped 3\n")
	if n := groupFree(dir, "memory.max", "memory.current", "file"); n != 400 {
		t.Errorf("a group of 1000 with 700 used, 100 of them file pages, leaves %d", n)
	}
}
