package tenant

import (
	"errors"
	"fmt"
)

// A Quota is how much may be stored. Zero means no limit.
type Quota struct {
	// StoreBytes bounds conversations and responses together, Conversations how many
	// conversations there are.
	StoreBytes    int64 `json:"store_bytes,omitzero"`
	Conversations int64 `json:"conversations,omitzero"`
	// FileBytes, Files and Batches bound what is kept for batches.
	FileBytes int64 `json:"file_bytes,omitzero"`
	Files     int64 `json:"files,omitzero"`
	Batches   int64 `json:"batches,omitzero"`
}

// validate says everything that is wrong with q.
func (q *Quota) validate() error {
	var problems []error
	for name, n := range map[string]int64{"store bytes": q.StoreBytes, "conversations": q.Conversations,
		"file bytes": q.FileBytes, "files": q.Files, "batches": q.Batches} {
		if n < 0 {
			problems = append(problems, fmt.Errorf("the quota of %s is %d: it must be 0 (none) or more", name, n))
		}
	}
	return errors.Join(problems...)
}
