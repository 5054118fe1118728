//go:build unix

package dirlock

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks f, or returns [ErrInUse].
func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}
