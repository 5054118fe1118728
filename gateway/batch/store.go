package batch

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"parley/gateway/convo"
	"parley/gateway/db"
	"parley/gateway/openai"
	"parley/internal/dirlock"
)

// Limits say how much a store takes. Zero fields have the default.
type Limits struct {
	// FileBytes bounds one file; default 200 MB, the interface's own.
	FileBytes int64
	// TotalBytes bounds all files of a tenant together; default 20 GB.
	TotalBytes int64
	// Files and Batches bound how many a tenant has; default 10000 each.
	Files, Batches int
	// Keep is how long files are kept at most, and batches that are over; 0 keeps files
	// for 30 days or as long as their upload says, and batches for 30 days.
	Keep time.Duration
	// Lines bounds the requests of a batch; default 50000, the interface's own.
	Lines int
	// LineBytes bounds one of them; default 16 MiB.
	LineBytes int
}

func (l Limits) withDefaults() Limits {
	l.FileBytes = cmp.Or(l.FileBytes, 200_000_000)
	l.TotalBytes = cmp.Or(l.TotalBytes, 20_000_000_000)
	l.Files = cmp.Or(l.Files, 10_000)
	l.Batches = cmp.Or(l.Batches, 10_000)
	l.Lines = cmp.Or(l.Lines, 50_000)
	l.LineBytes = cmp.Or(l.LineBytes, 16<<20)
	return l
}

// keepDefault is how long files of batches are kept, and batches themselves.
const keepDefault = 30 * 24 * time.Hour

// keepSeconds is how long a file is kept if asked seconds were requested, 0 for none.
func (l *Limits) keepSeconds(asked int) int64 {
	seconds := cmp.Or(int64(asked), int64(cmp.Or(l.Keep, keepDefault).Seconds()))
	if l.Keep > 0 {
		seconds = min(seconds, int64(l.Keep.Seconds()))
	}
	return seconds
}

// ErrInUse is in the error of a directory that another process works on.
var ErrInUse = dirlock.ErrInUse

// A Store keeps files and batches in a directory. It is safe for concurrent use.
type Store struct {
	dir    string
	limits Limits
	lock   *os.File

	mu      sync.Mutex
	files   map[string]file
	batches map[string]*record
	used    map[convo.Owner]*Usage
	// free says how much space a directory has left; 0 if that is not known.
	free func(dir string) int64
	news chan struct{}
}

// A file is one as it is described on disk.
type file struct {
	openai.File
	Owner convo.Owner `json:"parley_owner"`
}

// An Author is for whom the requests of a batch are made.
type Author struct {
	convo.Owner
	// Key is the id of the API key that made the batch, which its requests are
	// held to; empty if none was shown.
	Key string
}

// A record is a batch as it is stored.
type record struct {
	openai.Batch
	Owner convo.Owner `json:"parley_owner"`
	Key   string      `json:"parley_key,omitempty"`
	// OutputID and ErrorsID are what its files will be called. They are chosen
	// with the batch, so that publishing them twice makes no second file.
	OutputID string `json:"parley_output_id"`
	ErrorsID string `json:"parley_errors_id"`
	// KeepSeconds is how long they are kept.
	KeepSeconds int64 `json:"parley_keep_seconds"`
	// Order sorts batches of the same second.
	Order int64 `json:"parley_order"`
	// End is what the batch becomes once it is finalized.
	End openai.BatchStatus `json:"parley_end,omitempty"`

	cancel func() // ends the work on it, nil if there is none
}

func (r *record) author() Author { return Author{r.Owner, r.Key} }

// Open opens the store in a directory, which it makes if need be. What an
// earlier process did not complete is cleaned away. The caller must close it.
func Open(dir string, limits Limits) (*Store, error) {
	s := &Store{
		dir:     dir,
		limits:  limits.withDefaults(),
		files:   map[string]file{},
		batches: map[string]*record{},
		used:    map[convo.Owner]*Usage{},
		free:    db.FreeBytes,
		news:    make(chan struct{}, 1),
	}
	for _, sub := range []string{"files", "batches"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("batches: %w", err)
		}
	}
	var err error
	if s.lock, err = dirlock.Lock(dir); err != nil {
		return nil, fmt.Errorf("batches: %s: %w", dir, err)
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("batches: %w", err), s.Close())
	}
	return s, nil
}

// A Quota bounds what a tenant may keep, and each of its users. Zero of an
// tenant is what the store has for all, zero of a user bounds nothing.
type Quota struct {
	Files, Bytes, Batches             int64
	UserFiles, UserBytes, UserBatches int64
}

// A Usage is what is kept of an owner, or of all owners of a tenant: files,
// with those that are being taken in, and batches.
type Usage struct{ Files, Bytes, Batches int64 }

// An OwnerStore is one owner's part of a store. What others own is not found there.
type OwnerStore struct {
	*Store
	owner convo.Owner
	quota Quota
}

// Of returns an owner's part of the store.
func (s *Store) Of(owner convo.Owner) *OwnerStore { return &OwnerStore{Store: s, owner: owner} }

// count adds to what is kept of an owner. The store must be locked.
func (s *Store) count(owner convo.Owner, more Usage) {
	u := s.used[owner]
	if u == nil {
		u = &Usage{}
		s.used[owner] = u
	}
	*u = Usage{u.Files + more.Files, u.Bytes + more.Bytes, u.Batches + more.Batches}
	if *u == (Usage{}) {
		delete(s.used, owner)
	}
}

// FileBytesMax is how many bytes a file may have.
func (s *Store) FileBytesMax() int64 { return s.limits.FileBytes }

// Close lets another process use the directory.
func (s *Store) Close() error { return s.lock.Close() }

// load reads what is there. A file whose description is missing was not taken in
// completely.
func (s *Store) load() error {
	if err := readAll(s.path("files"), func(f file) {
		s.files[f.ID] = f
		s.count(f.Owner, Usage{Files: 1, Bytes: f.Bytes})
	}); err != nil {
		return err
	}
	if err := readAll(s.path("batches"), func(r *record) {
		s.batches[r.ID] = r
		s.count(r.Owner, Usage{Batches: 1})
	}); err != nil {
		return err
	}
	return errors.Join(
		s.sweep("files", func(id, kind string) bool { return s.files[id].ID != "" }),
		s.sweep("batches", func(id, kind string) bool {
			r := s.batches[id]
			return r != nil && (kind == "json" || !r.Status.Over())
		}))
}

// readAll reads every description in a directory.
func readAll[T any](dir string, take func(T)) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		take(v)
	}
	return nil
}

// sweep removes the files in a directory that belong to nothing known.
func (s *Store) sweep(sub string, known func(id, kind string) bool) error {
	entries, err := os.ReadDir(s.path(sub))
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, kind, _ := strings.Cut(e.Name(), ".")
		if known(id, kind) && !strings.HasSuffix(kind, "part") {
			continue
		}
		if err := os.Remove(s.path(sub, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// describe writes what is said of a file or batch, all of it or nothing.
func (s *Store) describe(sub, id string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	part := s.path(sub, id+".json.part")
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return s.rename(part, s.path(sub, id+".json"))
}

// rename makes a complete file known under its name, for good.
func (s *Store) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func newID(prefix string) string {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return prefix + hex.EncodeToString(b[:])
}

// page cuts what a client asked for out of all, which it may reorder. It reports
// false if the page begins behind something that is not there.
func page[T any](all []T, p openai.Page, id func(T) string, compare func(a, b T) int) (list []T, more, ok bool) {
	sort.Slice(all, func(i, j int) bool {
		if p.Ascending {
			i, j = j, i
		}
		return cmp.Or(compare(all[j], all[i]), strings.Compare(id(all[j]), id(all[i]))) < 0
	})
	if p.After != "" {
		at := slices.IndexFunc(all, func(v T) bool { return id(v) == p.After })
		if at < 0 {
			return nil, false, false
		}
		all = all[at+1:]
	}
	return all[:min(len(all), p.Limit)], len(all) > p.Limit, true
}
