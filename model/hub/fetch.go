package hub

import (
	"context"
	"crypto/sha1" //nolint:gosec // git names its objects by it
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// spareBytes must stay free on the disk.
const spareBytes = 64 << 20

// Fetch downloads files into a directory, which it makes. Files that are there with
// their size and checksum are not downloaded again.
//
// progress, if not nil, is called with how many bytes of all files are there. Bytes of
// an earlier, broken download count, and a file that has to begin again takes its bytes
// back. It may be called by several goroutines at once.
func (c *Client) Fetch(ctx context.Context, dir string, files []File, progress func(done, total int64)) error {
	p := c.prepared()
	var total int64
	for i := range files {
		if err := files[i].check(); err != nil {
			return err
		}
		total += files[i].Size
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := checkRoom(dir, files); err != nil {
		return err
	}
	var done atomic.Int64
	report := func(n int64) {
		if sum := done.Add(n); progress != nil {
			progress(sum, total)
		}
	}
	for i := range files {
		if err := p.fetch(ctx, dir, &files[i], report); err != nil {
			return err
		}
	}
	return nil
}

// Lock waits until no other process holds the lock of a file, which it makes. Processes
// that download into one directory take turns by it.
func (c *Client) Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for told := false; ; {
		locked, err := tryLock(f)
		if locked {
			return func() { _ = f.Close() }, nil // which frees the lock
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if !told {
			c.notify("another process downloads the same files; waiting for it")
			told = true
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// checkRoom compares what is still to be written with what the disk has.
func checkRoom(dir string, files []File) error {
	var need int64
	for i := range files {
		need += files[i].Size - present(dir, &files[i])
	}
	free, err := FreeBytes(dir)
	if err != nil {
		return err
	}
	if need > 0 && need+spareBytes > free {
		return errorf(NoRoom, "the download needs %.1f GB, and the disk of %s has %.1f GB free: "+
			"make room, or choose another directory with --data", float64(need+spareBytes)/1e9, dir, float64(free)/1e9)
	}
	return nil
}

// present returns how many bytes of a file have room on the disk already.
func present(dir string, f *File) int64 {
	path := filepath.Join(dir, filepath.FromSlash(f.Path))
	if info, err := os.Stat(path); err == nil && info.Size() == f.Size {
		return f.Size
	}
	state, err := readState(path, f)
	if err != nil {
		return 0
	}
	return state.done()
}

// fetch downloads one file, unless it is there.
func (c *Client) fetch(ctx context.Context, dir string, f *File, report func(int64)) error {
	path := filepath.Join(dir, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && info.Size() == f.Size {
		if verify(path, f) == nil {
			report(f.Size)
			return nil
		}
	}
	for fresh := false; ; fresh = true {
		resumed, err := c.download(ctx, path, f, report)
		if err != nil {
			return err
		}
		if err = verify(path+partSuffix, f); err == nil {
			break
		}
		// The pieces of an earlier download may be of another file: that is tried once more.
		report(-f.Size)
		if removed := removePart(path); removed != nil || !resumed || fresh {
			return errors.Join(err, removed)
		}
		c.notify(fmt.Sprintf("%s: the partial download does not match the file; starting again", f.Path))
	}
	if err := os.Rename(path+partSuffix, path); err != nil {
		return err
	}
	if err := os.Remove(path + stateSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removePart forgets a partial download.
func removePart(path string) error {
	var errs []error
	for _, name := range []string{path + partSuffix, path + stateSuffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// verify compares a file with its checksum, where it has one.
func verify(path string, f *File) error {
	var sum hash.Hash
	want := f.SHA256
	switch {
	case f.SHA256 != "":
		sum = sha256.New()
	case f.GitSHA1 != "":
		want, sum = f.GitSHA1, sha1.New()
		fmt.Fprintf(sum, "blob %d\x00", f.Size)
	default:
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(sum, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return errorf(Mismatch, "%s is damaged: its checksum is %s, and should be %s. "+
			"It was removed: run the command again", f.Path, got, want)
	}
	return nil
}
