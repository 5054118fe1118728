//go:build !unix

package store

import (
	"errors"
	"io/fs"
)

// isNotEmpty reports whether a rename failed because its target exists.
func isNotEmpty(err error) bool { return errors.Is(err, fs.ErrPermission) }
