package dirlock

import (
	"errors"
	"os/signal"
	"syscall"
	"testing"
)

// TestLockOnAFullDisk locks a directory in which nothing can be written, by the limit of this process on files.
func TestLockOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 0, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	held, err := Lock(dir)
	_, second := Lock(dir)
	if restored := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); restored != nil {
		t.Fatal(restored)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if !errors.Is(second, ErrInUse) {
		t.Errorf("a directory that is locked gives %v", second)
	}
}
