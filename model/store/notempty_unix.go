//go:build unix

package store

import (
	"errors"
	"syscall"
)

// isNotEmpty reports whether a rename failed because its target is a directory with
// files.
func isNotEmpty(err error) bool { return errors.Is(err, syscall.ENOTEMPTY) }
