package batch

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"parley/gateway/convo"
	"parley/gateway/openai"
)

// Adopt gives the files and batches of an owner to another.
func (s *Store) Adopt(from, to convo.Owner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.files {
		if f.Owner != from {
			continue
		}
		f.Owner = to
		if err := s.describe("files", id, f); err != nil {
			return err
		}
		s.files[id] = f
		s.count(from, Usage{Files: -1, Bytes: -f.Bytes})
		s.count(to, Usage{Files: 1, Bytes: f.Bytes})
	}
	for id, r := range s.batches {
		if r.Owner != from {
			continue
		}
		changed := *r
		changed.Owner = to
		if err := s.describe("batches", id, &changed); err != nil {
			return err
		}
		r.Owner = to
		s.count(from, Usage{Batches: -1})
		s.count(to, Usage{Batches: 1})
	}
	return nil
}

// Erase cancels the batches of the owner that are not over, and removes the records of the
// others. The record of a batch that was cancelled expires as all do.
func (s *OwnerStore) Erase(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	for id, r := range s.batches {
		switch {
		case r.Owner != s.owner:
		case r.Status.Over():
			if err := os.Remove(s.path("batches", id+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, err)
				continue
			}
			delete(s.batches, id)
			s.count(r.Owner, Usage{Batches: -1})
		case r.Status != openai.BatchCancelling && r.Status != openai.BatchFinalizing:
			problems = append(problems, s.cancel(r, now))
		}
	}
	s.tell()
	return errors.Join(problems...)
}
