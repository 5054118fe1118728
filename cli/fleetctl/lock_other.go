//go:build !unix

package fleetctl

import (
	"os"
	"path/filepath"
)

// lockDir opens the lock's file. There is no lock to take here.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
