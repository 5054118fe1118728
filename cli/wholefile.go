package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteWhole writes beside the final name first, so that a file with that name
// is always complete, also after a crash. If ctx ends, nothing is left behind.
func WriteWhole(ctx context.Context, path string, write func(w io.Writer) error) error {
	return WriteWholeMode(ctx, path, 0o644, write)
}

// WriteWholeMode is WriteWhole with the permissions of the file.
func WriteWholeMode(ctx context.Context, path string, mode os.FileMode, write func(w io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = write(&untilDone{ctx, f})
	if err == nil { // what is thrown away need not reach the disk, which can take long
		err = errors.Join(f.Sync(), f.Chmod(mode))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// An untilDone writes until the user loses patience.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

// Write fails once the context has ended.
func (u *untilDone) Write(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, ErrInterrupted
	}
	return u.w.Write(p)
}

// WritePrivate is WriteWhole for files that only their owner may read.
func WritePrivate(path string, write func(io.Writer) error) error {
	return WriteWholeMode(context.Background(), path, 0o600, write)
}
