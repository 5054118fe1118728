package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"parley/gateway/openai"
)

// A journal collects the results of a batch as they come, in two files beside
// the batch. Nothing is synced before the end: what a power cut takes away is
// answered again.
type journal struct {
	store *Store
	id    string

	mu             sync.Mutex
	output, errors *os.File
	done           map[string]bool // custom ids that have a result
	counts         openai.BatchRequestCounts
	late           bool // some results say that the time was over
	err            error
}

// openJournal takes up what there is of the results of a batch.
func (s *Store) openJournal(r *record) (*journal, error) {
	j := &journal{store: s, id: r.ID, done: map[string]bool{},
		counts: openai.BatchRequestCounts{Total: r.RequestCounts.Total}}
	var err error
	if j.output, err = j.takeUp("output", &j.counts.Completed); err != nil {
		return nil, err
	}
	if j.errors, err = j.takeUp("errors", &j.counts.Failed); err != nil {
		return nil, errors.Join(err, j.output.Close())
	}
	return j, nil
}

// takeUp opens one of the two files, counts its results and cuts off what is not
// a whole one.
func (j *journal) takeUp(kind string, count *int) (*os.File, error) {
	f, err := os.OpenFile(j.path(kind), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	whole, err := recovered(f, func(result *openai.BatchResult) bool {
		if j.done[result.CustomID] {
			return false
		}
		j.note(result, count)
		return true
	})
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// note remembers that a request has its result.
func (j *journal) note(result *openai.BatchResult, count *int) {
	j.done[result.CustomID] = true
	j.late = j.late || result.Error != nil && result.Error.Code == expiredCode
	*count++
}

func (j *journal) path(kind string) string { return j.store.path("batches", j.id+"."+kind) }

// recovered reads results from r and returns how many bytes of it are whole
// ones. The first that is not, or that take refuses, ends it: what follows was
// not written in order, so it is not to be trusted either.
func recovered(r io.Reader, take func(*openai.BatchResult) bool) (whole int64, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return whole, err
		}
		var result openai.BatchResult
		if json.Unmarshal(line, &result) != nil || result.CustomID == "" || !take(&result) {
			return whole, nil
		}
		whole += int64(len(line))
	}
}

// has reports whether a request has its result.
func (j *journal) has(customID string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done[customID]
}

// add writes a result, with one write, unless the request has one. An error is
// kept for [journal.failure].
func (j *journal) add(result openai.BatchResult) {
	line, err := openai.Encode(result)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done[result.CustomID] || j.err != nil {
		return
	}
	to, count := j.output, &j.counts.Completed
	if result.Response == nil || result.Response.StatusCode != 200 {
		to, count = j.errors, &j.counts.Failed
	}
	if err == nil {
		_, err = to.Write(append(line, '\n'))
	}
	if err != nil {
		j.err = fmt.Errorf("results of batch %s: %w", j.id, err)
		return
	}
	j.note(&result, count)
}

// failure is why results could not be written, nil if they could.
func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// expired reports whether there was no time for some requests.
func (j *journal) expired() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.late
}

func (j *journal) counted() openai.BatchRequestCounts {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts
}

func (j *journal) close() error { return errors.Join(j.output.Close(), j.errors.Close()) }

// publish makes the results files of the store, those that have any. It can be
// called again after a crash at any point.
func (j *journal) publish(r *record, now time.Time) (outputID, errorID string, err error) {
	if err := errors.Join(j.output.Sync(), j.errors.Sync()); err != nil {
		return "", "", err
	}
	for _, part := range []struct {
		kind, id, name string
		lines          int
		into           *string
	}{
		{"output", r.OutputID, r.ID + "_output.jsonl", j.counts.Completed, &outputID},
		{"errors", r.ErrorsID, r.ID + "_error.jsonl", j.counts.Failed, &errorID},
	} {
		published, err := j.store.adopt(j.path(part.kind), file{openai.File{
			ID:        part.id,
			Object:    "file",
			CreatedAt: now.Unix(),
			ExpiresAt: now.Unix() + r.KeepSeconds,
			Filename:  part.name,
			Purpose:   openai.OutputPurpose,
			Status:    "processed",
		}, r.Owner})
		if err != nil {
			return "", "", err
		}
		if published {
			*part.into = part.id
		}
	}
	return outputID, errorID, nil
}

// adopt copies the file at path into the store under a known id, unless it is
// empty. It stays where it is until the batch is over, so that nothing is lost
// on the way.
func (s *Store) adopt(path string, f file) (bool, error) {
	if _, err := s.Of(f.Owner).File(f.ID); err == nil {
		return true, nil
	}
	stat, err := os.Stat(path)
	if err != nil || stat.Size() == 0 {
		return false, err
	}
	f.Bytes = stat.Size()
	data := s.path("files", f.ID+".data")
	if err := os.Link(path, data); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	if err := errors.Join(syncDir(s.path("files")), s.describe("files", f.ID, f)); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[f.ID] = f
	s.count(f.Owner, Usage{Files: 1, Bytes: f.Bytes})
	return true, nil
}

// discard removes the journal of a batch that is over.
func (s *Store) discard(id string) error {
	var problems []error
	for _, kind := range []string{"output", "errors"} {
		if err := os.Remove(s.path("batches", id+"."+kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
