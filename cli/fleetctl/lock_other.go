//go:build !unix

package fleetctl

import (
	"os"
	"path/filepath"
)

// lockDir opens the file that is locked on Unix. Other systems do not lock it, so two fleets may use one directory.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
