package parley

import (
	"encoding/json"
	"time"
)

// A WorkerRole is what a worker does of a request.
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
	// Request is the id of a request that still computes them there, so that they come as
	// they are computed; empty if it holds them all.
	Request string
	// Within bounds the time: what has not come by then is computed.
	Within time.Duration
	// Only: nothing is computed. The request ends when the blocks have come.
	Only bool `json:",omitzero"`
}

// A Transfer says what came of a [BlockSource], or of a store of blocks.
type Transfer struct {
	// From is the worker or the store that was asked.
	From string
	// AskedTokens were missing, and CameTokens of them came, in Bytes.
	AskedTokens, CameTokens int
	Bytes                   int64
	// Took is how long the request waited for them.
	Took time.Duration
	// Shared: they came through memory shared with a worker on the same host.
	Shared bool
	// Miss says why not all came; empty if they did.
	Miss string
}

// A Handoff divides a request between two foreign engines of one kind: one computes the
// prompt and the other writes the answer. Keys and values go from the first to the second by
// the engines' own means.
type Handoff struct {
	// Prefill has this worker compute the prompt. Otherwise it writes the answer.
	Prefill bool
	// Fields are the members of the request's body that tell an engine of the other one.
	// Where the worker that computes the prompt is given none, it sets them when it has.
	Fields json.RawMessage
}
