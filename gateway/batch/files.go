package batch

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// An Upload is a file that is being taken in. Exactly one of Keep and Drop ends it.
type Upload struct {
	store *OwnerStore
	owner convo.Owner
	file  *os.File
	id    string
	bytes int64
}

// NewUpload begins to take a file in. There must be room for one more.
func (s *OwnerStore) NewUpload() (*Upload, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.room(Usage{Files: 1}), s.diskRoom(0)); err != nil {
		return nil, err
	}
	id := newID("file-")
	f, err := os.OpenFile(s.path("files", id+".data.part"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s.count(s.owner, Usage{Files: 1})
	return &Upload{
		store: s,
		owner: s.owner,
		file:  f,
		id:    id,
	}, nil
}

// diskEvery is after how many bytes of an upload the disk is asked again for room.
const diskEvery = 8 << 20

// Write appends to the file. Its limit, and the quota of its tenant and user,
// are checked before anything is written.
func (u *Upload) Write(p []byte) (int, error) {
	s := u.store
	s.mu.Lock()
	switch {
	case u.bytes+int64(len(p)) > s.limits.FileBytes:
		s.mu.Unlock()
		return 0, parley.Errorf(parley.TooLarge, "The file is larger than the limit of %d bytes.",
			s.limits.FileBytes)
	}
	err := s.room(Usage{Bytes: int64(len(p))})
	if err == nil && (u.bytes+int64(len(p)))/diskEvery != u.bytes/diskEvery {
		err = s.diskRoom(int64(len(p)))
	}
	if err != nil {
		s.mu.Unlock()
		return 0, err
	}
	s.count(u.owner, Usage{Bytes: int64(len(p))})
	s.mu.Unlock()
	u.bytes += int64(len(p))
	return u.file.Write(p)
}

// Drop forgets the file.
func (u *Upload) Drop() error {
	s := u.store
	s.mu.Lock()
	s.count(u.owner, Usage{Files: -1, Bytes: -u.bytes})
	s.mu.Unlock()
	return errors.Join(u.file.Close(), os.Remove(u.file.Name()))
}

// Keep completes the file. If it fails, the file is dropped.
func (u *Upload) Keep(name, purpose string, keepSeconds int, now time.Time) (openai.File, error) {
	s := u.store
	f := file{openai.File{
		ID:        u.id,
		Object:    "file",
		Bytes:     u.bytes,
		CreatedAt: now.Unix(),
		Filename:  name,
		Purpose:   purpose,
		Status:    "processed",
	}, u.owner}
	f.ExpiresAt = f.CreatedAt + s.limits.keepSeconds(keepSeconds)
	if err := u.file.Sync(); err != nil {
		return openai.File{}, errors.Join(err, u.Drop())
	}
	data := s.path("files", u.id+".data")
	if err := s.rename(u.file.Name(), data); err != nil {
		return openai.File{}, errors.Join(err, u.Drop())
	}
	err := errors.Join(u.file.Close(), s.describe("files", u.id, f))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.count(u.owner, Usage{Files: -1, Bytes: -u.bytes})
		return openai.File{}, errors.Join(err, os.Remove(data))
	}
	s.files[f.ID] = f
	return f.File, nil
}

// File returns what is known of a file.
func (s *OwnerStore) File(id string) (openai.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[id]
	if !ok || f.Owner != s.owner {
		return openai.File{}, openai.ObjectNotFound("File", id)
	}
	return f.File, nil
}

// Files returns a page of files.
func (s *OwnerStore) Files(p openai.Page) (openai.FileList, error) {
	s.mu.Lock()
	var all []openai.File
	for _, f := range s.files {
		if f.Owner == s.owner && (p.Purpose == "" || p.Purpose == f.Purpose) {
			all = append(all, f.File)
		}
	}
	s.mu.Unlock()
	data, more, ok := page(all, p, func(f openai.File) string { return f.ID },
		func(a, b openai.File) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	if !ok {
		return openai.FileList{}, openai.ObjectNotFound("File", p.After)
	}
	list := openai.FileList{Object: "list", Data: append([]openai.File{}, data...), HasMore: more}
	if len(data) > 0 {
		list.FirstID, list.LastID = data[0].ID, data[len(data)-1].ID
	}
	return list, nil
}

// Read opens the content of a file. The caller must close it.
func (s *OwnerStore) Read(id string) (io.ReadSeekCloser, openai.File, error) {
	f, err := s.File(id)
	if err != nil {
		return nil, f, err
	}
	r, err := os.Open(s.path("files", id+".data"))
	if errors.Is(err, fs.ErrNotExist) {
		err = openai.ObjectNotFound("File", id)
	}
	return r, f, err
}

// Delete removes a file. The input of a batch that is not over stays.
func (s *OwnerStore) Delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[id]
	if !ok || f.Owner != s.owner {
		return openai.ObjectNotFound("File", id)
	}
	for _, r := range s.batches {
		if !r.Status.Over() && r.InputFileID == id {
			return parley.Errorf(parley.Conflict,
				"The file %s is the input of the batch %s, which is not over: cancel it first.", id, r.ID)
		}
	}
	return s.remove(f)
}

// remove takes a file away: first what is said of it, so that it is not found
// half. The store must be locked.
func (s *Store) remove(f file) error {
	if err := os.Remove(s.path("files", f.ID+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(s.files, f.ID)
	s.count(f.Owner, Usage{Files: -1, Bytes: -f.Bytes})
	return os.Remove(s.path("files", f.ID+".data"))
}
