//go:build linux || darwin

package hub

import "golang.org/x/sys/unix"

// FreeBytes returns how much the disk of a directory has room for.
func FreeBytes(dir string) (int64, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return int64(min(float64(disk.Bavail)*float64(disk.Bsize), FileBytesMax)), nil
}
