package worker

// The routes of a Parley worker beside those it has in common with vLLM.
const (
	// GeneratePath takes a request whole and streams its deltas, over HTTP/2.
	GeneratePath = "/parley/v1/generate"
	// AboutPath tells in one answer what a gateway wants to know of a worker.
	AboutPath = "/parley/v1/about"
	// SnapshotPath lists all blocks that the worker holds.
	SnapshotPath = "/parley/v1/snapshot"
)
