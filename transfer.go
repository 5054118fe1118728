package parley

import (
	"encoding/json"
	"time"
)

// A WorkerRole is the part of a request that a worker computes.
type WorkerRole string

// The roles. The zero value is a worker that does both.
const (
	// RolePrefill computes prompts, whose blocks workers that decode fetch.
	RolePrefill WorkerRole = "prefill"
	// RoleDecode writes answers to prompts that others have computed.
	RoleDecode WorkerRole = "decode"
)

// A BlockSource names a worker that holds the keys and values of a request's first
// tokens, so that the one which computes the request can fetch them from there.
type BlockSource struct {
	// Worker is a name for people, URL where it listens. Ticket lets the bearer read
	// blocks there and do nothing else; empty where none is needed.
	Worker, URL, Ticket string
	// Tokens is how many leading tokens of the request it holds.
	Tokens int
	// Request is the id of a request that still computes them there, so that they are sent
	// while they are computed; empty if the worker has all of them.
	Request string
	// Within bounds the time: blocks that have not arrived by then are computed.
	Within time.Duration
	// Only: nothing is computed. The request ends when the blocks have arrived.
	Only bool `json:",omitzero"`
}

// A Transfer is the outcome of fetching from a [BlockSource], or from a store of blocks.
type Transfer struct {
	// From is the worker or the store that was asked.
	From string
	// AskedTokens is the number of missing tokens, CameTokens the number that arrived, in Bytes.
	AskedTokens, CameTokens int
	Bytes                   int64
	// Took is how long the request waited for them.
	Took time.Duration
	// Shared: they were moved through memory shared with a worker on the same host.
	Shared bool
	// Miss says why not all arrived; empty if they did.
	Miss string
}

// A Handoff splits a request between two foreign engines of one kind: one computes the
// prompt and the other writes the answer. The engines move the keys and values themselves.
type Handoff struct {
	// Prefill has this worker compute the prompt. Otherwise it writes the answer.
	Prefill bool
	// Fields are the members of the request's body that identify the other engine. If they
	// are empty, the prefill worker sets them when it has computed the prompt.
	Fields json.RawMessage
}
