package db

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley"
)

// smallDisk mounts a disk of its own for a test.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill takes all the space that is left, and returns the file that has it.
func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "filler")
	file := must(os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600))(t)
	defer file.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		var err error
		for err == nil {
			_, err = io.Copy(file, strings.NewReader(strings.Repeat("x", size)))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return path
}

// TestDeletingOnAFullDisk stores until the disk is full: a write is refused with
// the true reason, a deletion succeeds, and writing works again once there is space.
func TestDeletingOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "size=80m")
	d := opened(t, filepath.Join(dir, "parley.db"))
	check(t, d.note("old"))
	filler := fill(t, dir)

	big := strings.Repeat("x", 1<<20)
	var err error
	for range 100 { // the log is reused until it is full
		if err = d.note(big); err != nil {
			break
		}
	}
	if !IsFull(err) || parley.CodeOf(err) != parley.Unavailable || !d.Full() {
		t.Fatalf("a write on a full disk: %v; full: %v", err, d.Full())
	}
	fill(t, dir)
	check(t, d.WriteReserved(t.Context(), func(t *Tx) error {
		_, err := t.Exec(`DELETE FROM notes WHERE text = 'old'`)
		return err
	}))

	check(t, os.Remove(filler))
	check(t, d.note(big))
	if d.Full() {
		t.Error("the disk is said to be full although a write succeeded")
	}
	d.reserve.keep(time.Now().Add(2 * reserveEvery))
	if _, err := os.Stat(d.reserve.path); err != nil {
		t.Errorf("the reserve was not made again: %v", err)
	}
}
