// Package dirlock has one process at a time use a directory.
package dirlock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrInUse is in the error of a directory that another process has locked.
var ErrInUse = errors.New("another process uses the directory")

// Lock makes this process the one that uses dir, until the file is closed or the process ends. The file has the
// process's id, unless the disk is full. Systems other than Unix have no such lock: there, two processes may use one
// directory.
func Lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = lockFile(f); errors.Is(err, ErrInUse) {
		if pid, _ := io.ReadAll(io.LimitReader(f, 20)); len(pid) > 0 {
			err = fmt.Errorf("%w: process %s", ErrInUse, strings.TrimSpace(string(pid)))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Only errors name the process: a full disk does not keep one from starting.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintln(f, os.Getpid())
	}
	return f, nil
}
