package db

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// reserveBytes is enough for the log of many small deletions.
	reserveBytes = 16 << 20
	// reserveRoom is how many times reserveBytes must be free before the file is made.
	reserveRoom  = 4
	reserveEvery = time.Minute
)

// A reserve keeps disk space back for deletions. On a full disk SQLite cannot
// even delete, because a deletion is first appended to the write-ahead log. So
// a file of reserveBytes lies beside the database, and is removed when a
// transaction that must succeed finds the disk full.
type reserve struct {
	path string

	mu    sync.Mutex
	tried time.Time
}

// keep makes the file if it is missing and the disk has room. It looks at most
// once every reserveEvery. Without the file everything else works.
func (r *reserve) keep(now time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.tried) < reserveEvery {
		return
	}
	r.tried = now
	if _, err := os.Stat(r.path); err == nil || freeBytes(r.path) < reserveRoom*reserveBytes {
		return
	}
	file, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	allocated := allocate(file, reserveBytes)
	if err := file.Close(); err != nil || allocated != nil {
		_ = os.Remove(r.path)
	}
}

// release removes the file, and reports whether that gave space back.
func (r *reserve) release() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return os.Remove(r.path) == nil
}

// FreeBytes returns how much space the disk of a directory has left for this account;
// 0 where that cannot be asked.
func FreeBytes(dir string) int64 { return freeBytes(filepath.Join(dir, "any")) }
