//go:build unix

package tier

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// takeArena takes memory outside the collector's heap, which would otherwise
// wait to collect until as much again was garbage. It costs nothing until used.
func takeArena(bytes int64) ([]byte, error) {
	if bytes <= 0 || bytes > math.MaxInt {
		return nil, fmt.Errorf("%d bytes is not a size", bytes)
	}
	return unix.Mmap(-1, 0, int(bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func giveArena(b []byte) error { return unix.Munmap(b) }

// lock makes the file this process's own, until it ends.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// freeBytes returns how much room the disk of a directory has.
func freeBytes(dir string) (bytes int64, ok bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
