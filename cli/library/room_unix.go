//go:build linux || darwin

package library

import (
	"math"

	"golang.org/x/sys/unix"
)

// roomFor returns how large a file this process may write in the directory: as
// the disk and the limit of the process have it.
func roomFor(dir string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return 0, err
	}
	free := float64(disk.Bavail) * float64(disk.Bsize)
	return int64(min(free, float64(limit.Cur), math.MaxInt64/2)), nil
}
