package cli

import (
	"os"
	"path/filepath"
	"runtime"
)

// DataDir returns where the user's system keeps the data of programs.
func DataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "parley")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "parley")
	}
	return filepath.Join(home, ".local", "share", "parley")
}
