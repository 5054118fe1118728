package worker

import "parley"

// The routes of a Parley worker beside those it has in common with vLLM, and
// [wire.Path].
const (
	// AboutPath describes a worker to a gateway.
	AboutPath = "/parley/v1/about"
	// EventsPath streams what comes to and goes from the worker's cache; see [Journal].
	EventsPath = "/parley/v1/events"
	// SnapshotPath lists all blocks that the worker holds.
	SnapshotPath = "/parley/v1/snapshot"
	// ReusePath takes what other workers have observed of how soon blocks are used again, and
	// answers with what this one has; see [Reuse].
	ReusePath = "/parley/v1/reuse"
)

// A Reuse is what caches have observed of how soon blocks are used again, each in the bytes of
// its engine: those of others that are given to a worker, and its own in the answer.
type Reuse struct {
	Others [][]byte `json:"others"`
	Own    []byte   `json:"own,omitempty"`
}

// An About is what a Parley worker says of itself.
type About struct {
	Version  string            `json:"version"`
	Instance string            `json:"instance"`
	Pool     string            `json:"pool,omitempty"`
	Role     parley.WorkerRole `json:"role,omitempty"`
	Models   []parley.Model    `json:"models"`
	Running  int               `json:"running"`
	Waiting  int               `json:"waiting"`
	Seats    int               `json:"seats,omitempty"`
	KVUse    float64           `json:"kv_use"`
	Blocks   int               `json:"blocks"`
	// BusySeconds is how long it has computed since it began, Preemptions how often
	// a request lost its memory meanwhile.
	BusySeconds float64 `json:"busy_seconds"`
	Preemptions uint64  `json:"preemptions"`
	// ReadySeconds is how long its model took to load, at the start or when it was last woken.
	ReadySeconds float64 `json:"ready_seconds,omitempty"`
	// BlockTokens is how many tokens a block has.
	BlockTokens int  `json:"block_tokens"`
	Sleeping    bool `json:"sleeping,omitempty"`
	Draining    bool `json:"draining,omitempty"`
	// MoveSeconds is after what time other workers should have taken over the answers of
	// one that is draining, which until it ends gives them its blocks; 0 if it lets all finish.
	MoveSeconds float64 `json:"move_seconds,omitempty"`
	// Format is the digest of what the bytes of its blocks depend on, which other workers
	// must have in common to fetch them; empty if it gives none. BlockBytes is their size.
	Format     string `json:"format,omitempty"`
	BlockBytes int    `json:"block_bytes,omitempty"`
	// Place is where it can share memory: two workers that say the same can; empty if it shares none.
	Place string `json:"place,omitempty"`
	// Device is the GPU that it computes on, nil without one.
	Device *parley.DeviceState `json:"device,omitempty"`
}
