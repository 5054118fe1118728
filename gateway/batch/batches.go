package batch

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"time"

	"parley"
	"parley/gateway/openai"
)

// window is how long a batch may take.
const window = 24 * time.Hour

// Create stores a new batch, which a [Runner] will take up. It was asked for with
// the API key of an id, if any.
func (s *OwnerStore) Create(r *openai.BatchRequest, key string, now time.Time) (openai.Batch, error) {
	f, err := s.File(r.InputFileID)
	if err != nil {
		return openai.Batch{}, parley.Invalid("input_file_id", "Invalid 'input_file_id': no such File object: %.64s",
			r.InputFileID)
	}
	if f.Purpose != openai.FilePurpose {
		return openai.Batch{}, parley.Invalid("input_file_id",
			"Invalid 'input_file_id': the file's purpose is '%s', but it must be '%s'.", f.Purpose, openai.FilePurpose)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(Usage{Batches: 1}); err != nil {
		return openai.Batch{}, err
	}
	rec := &record{
		Batch: openai.Batch{
			ID:               newID("batch_"),
			Object:           "batch",
			Endpoint:         r.Endpoint,
			InputFileID:      r.InputFileID,
			CompletionWindow: "24h",
			Status:           openai.BatchValidating,
			CreatedAt:        now.Unix(),
			ExpiresAt:        now.Add(window).Unix(),
			Metadata:         r.Metadata,
		},
		Owner:       s.owner,
		Key:         key,
		OutputID:    newID("file-"),
		ErrorsID:    newID("file-"),
		Order:       now.UnixNano(),
		KeepSeconds: s.limits.keepSeconds(r.OutputSeconds),
	}
	if err := s.describe("batches", rec.ID, rec); err != nil {
		return openai.Batch{}, err
	}
	s.batches[rec.ID] = rec
	s.count(rec.Owner, Usage{Batches: 1})
	s.tell()
	return rec.Batch, nil
}

// tell wakes the runner.
func (s *Store) tell() {
	select {
	case s.news <- struct{}{}:
	default: // it will look anyway
	}
}

// find returns the owner's batch of an id, or nil. The store must be locked.
func (s *OwnerStore) find(id string) *record {
	if r := s.batches[id]; r != nil && r.Owner == s.owner {
		return r
	}
	return nil
}

// Batch returns a batch.
func (s *OwnerStore) Batch(id string) (openai.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(id)
	if r == nil {
		return openai.Batch{}, openai.ObjectNotFound("Batch", id)
	}
	return r.Batch, nil
}

// Batches returns a page of batches.
func (s *OwnerStore) Batches(p openai.Page) (openai.BatchList, error) {
	s.mu.Lock()
	var all []record
	for _, r := range s.batches {
		if r.Owner == s.owner {
			all = append(all, *r)
		}
	}
	s.mu.Unlock()
	data, more, ok := page(all, p, func(r record) string {
		return r.ID
	}, func(a, b record) int { return cmp.Compare(a.Order, b.Order) })
	if !ok {
		return openai.BatchList{}, openai.ObjectNotFound("Batch", p.After)
	}
	list := openai.BatchList{Object: "list", Data: []openai.Batch{}, HasMore: more}
	for i := range data {
		list.Data = append(list.Data, data[i].Batch)
	}
	if len(data) > 0 {
		list.FirstID, list.LastID = data[0].ID, data[len(data)-1].ID
	}
	return list, nil
}

// Cancel asks for a batch to end. What it has so far becomes its output.
func (s *OwnerStore) Cancel(id string, now time.Time) (openai.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(id)
	switch {
	case r == nil:
		return openai.Batch{}, openai.ObjectNotFound("Batch", id)
	case r.Status == openai.BatchCancelling || r.Status == openai.BatchCancelled:
		return r.Batch, nil
	case r.Status.Over() || r.Status == openai.BatchFinalizing:
		return openai.Batch{}, parley.Errorf(parley.Conflict, "Cannot cancel a batch with status '%s'.", r.Status)
	}
	if err := s.cancel(r, now); err != nil {
		return openai.Batch{}, err
	}
	s.tell()
	return r.Batch, nil
}

// cancel ends the work on a batch; the caller holds the lock.
func (s *Store) cancel(r *record, now time.Time) error {
	changed := *r
	changed.Status, changed.CancellingAt = openai.BatchCancelling, now.Unix()
	if err := s.describe("batches", r.ID, &changed); err != nil {
		return err
	}
	*r = changed
	if r.cancel != nil {
		r.cancel()
	}
	return nil
}

// change stores a batch after a change. A change that says false is not made.
func (s *Store) change(r *record, how func(*record) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := *r
	if !how(&changed) {
		return nil
	}
	if err := s.describe("batches", r.ID, &changed); err != nil {
		return err
	}
	*r = changed
	return nil
}

// view returns a copy of a batch.
func (s *Store) view(r *record) record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *r
}

// Expire removes the files and batches whose time is over.
func (s *Store) Expire(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := map[string]bool{}
	var problems []error
	for id, r := range s.batches {
		switch {
		case !r.Status.Over():
			needed[r.InputFileID] = true
		case now.Unix() >= r.CreatedAt+int64((cmp.Or(s.limits.Keep, keepDefault)+window).Seconds()):
			if err := os.Remove(s.path("batches", id+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				problems = append(problems, err)
				continue
			}
			delete(s.batches, id)
			s.count(r.Owner, Usage{Batches: -1})
		}
	}
	for _, f := range s.files {
		if f.ExpiresAt != 0 && now.Unix() >= f.ExpiresAt && !needed[f.ID] {
			problems = append(problems, s.remove(f))
		}
	}
	return errors.Join(problems...)
}
