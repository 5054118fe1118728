//go:build !unix

package batch

import (
	"os"
	"path/filepath"
)

// lockDir opens the lock's file. There is no lock to take here, so starting two
// processes on one directory is up to the operator not to do.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
