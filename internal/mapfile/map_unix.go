//go:build linux || darwin

package mapfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open maps a whole file read-only. The returned function unmaps it.
func Open(path string) (data []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	size, err := Size(f)
	if err != nil {
		return nil, nil, err
	}
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: map %d bytes: %w", path, size, err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}

// Forget drops the pages of a mapped file from memory. The system may refuse,
// which costs nothing but memory.
func Forget(data []byte) {
	keepPagesSmall(data) // single rows are read from now on
	_ = unix.Madvise(data, unix.MADV_DONTNEED)
}
