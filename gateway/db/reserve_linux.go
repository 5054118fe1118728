package db

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeBytes returns how much space the disk of path has left for this account.
func freeBytes(path string) int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &s); err != nil {
		return 0
	}
	return int64(s.Bavail) * s.Bsize
}

// allocate gives the file blocks on the disk, which a sparse file has not.
func allocate(file *os.File, bytes int64) error {
	return unix.Fallocate(int(file.Fd()), 0, 0, bytes)
}
