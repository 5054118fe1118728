package batch

import (
	"fmt"

	"parley"
)

// Within returns the store as a caller with a quota sees it.
func (s *OwnerStore) Within(q Quota) *OwnerStore {
	return &OwnerStore{Store: s.Store, owner: s.owner, quota: q}
}

// Usage returns what the tenant of the store's owner keeps, and what the owner
// does.
func (s *OwnerStore) Usage() (organization, user Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usage()
}

// usage is Usage. The store must be locked.
func (s *OwnerStore) usage() (organization, user Usage) {
	for owner, u := range s.used {
		if owner.Tenant == s.owner.Tenant {
			organization = Usage{organization.Files + u.Files, organization.Bytes + u.Bytes,
				organization.Batches + u.Batches}
		}
	}
	if u := s.used[s.owner]; u != nil {
		user = *u
	}
	return organization, user
}

// room wants that the quota leaves room for more. The store must be locked.
func (s *OwnerStore) room(more Usage) error {
	q := s.quota
	orElse := func(own, all int64) int64 {
		if own == 0 {
			return all
		}
		return own
	}
	organization, user := s.usage()
	for _, part := range []struct {
		whose               string
		used                Usage
		files, bytes, batch int64
	}{
		{"Your organisation", organization, orElse(q.Files, int64(s.limits.Files)),
			orElse(q.Bytes, s.limits.TotalBytes), orElse(q.Batches, int64(s.limits.Batches))},
		{"You", user, q.UserFiles, q.UserBytes, q.UserBatches},
	} {
		for _, of := range []struct {
			what, remedy      string
			used, more, limit int64
		}{
			{"files", "Delete some with DELETE /v1/files/{id}.", part.used.Files, more.Files, part.files},
			{"bytes of files", "Delete files with DELETE /v1/files/{id}.", part.used.Bytes, more.Bytes, part.bytes},
			{"batches", "Those that are over are removed after 30 days.", part.used.Batches, more.Batches, part.batch},
		} {
			if of.limit > 0 && of.more > 0 && of.used+of.more > of.limit {
				return parley.Errorf(parley.QuotaExceeded, "%s may store %d %s, and %d are stored. %s", part.whose,
					of.limit, of.what, of.used, of.remedy)
			}
		}
	}
	return nil
}

// diskReserve is how much space files leave free on the disk.
const diskReserve = 256 << 20

// diskRoom returns an error unless the disk has room for bytes more.
func (s *Store) diskRoom(bytes int64) error {
	free := s.free(s.dir)
	if free == 0 || free-bytes >= diskReserve { // 0 where it cannot be asked
		return nil
	}
	return &parley.Error{Code: parley.Unavailable, Message: fmt.Sprintf(
		"The server's disk has %d MB left, of which %d MB are kept free: there is no room for the file now. Try "+
			"again later, or delete files.", free/1e6, int64(diskReserve)/1e6)}
}
