package ledger

import (
	"time"

	"parley"
	"parley/limit"
)

// An Entry is what one generation used.
type Entry struct {
	// ID is the request's, or made from it; no other entry has the same.
	ID string
	// At is when it ended.
	At time.Time
	// Organization pays; User and Key are who called for it, if that is known.
	Organization, User, Key string
	Model                   string
	Tier                    parley.Class
	// Route is the endpoint.
	Route string
	// Input are the prompt's tokens, Cached those of them that were not computed,
	// Output those that were written.
	Input, Cached, Output int64
	Cost                  limit.Micros
	// Worker computed it, chosen for Reason.
	Worker, Reason string
	// Outcome is the reason of the finish, or the code of the error.
	Outcome string
	// Estimated: the tokens are estimates, as the upstream that answered reported none.
	Estimated bool
	Tags      Tags
	// Shared answers were computed for another request; Batch ones without a client.
	Shared, Batch bool
	// Internal generations are the server's own, such as a title: they are paid for and not counted as requests.
	Internal bool
	Stages   Stages
}

// A Stage is a part of the way to the first token.
type Stage int

// The stages, in the order of a request.
const (
	// Auth is until it is known who calls.
	Auth Stage = iota
	// Limits is the reservation.
	Limits
	// History is what was said before, from the store.
	History
	// Tokenize is rendering the prompt and making tokens of it.
	Tokenize
	// Route is looking for the answer in the cache, and for a worker.
	Route
	// Queue is the wait for a turn, at the gateway and at the worker.
	Queue
	// Prefill is computing the prompt.
	Prefill
	// FirstStep is what is left until the first token has come.
	FirstStep
	// Write is making an event or a body of it and handing that to the network.
	Write
	// StageCount is how many there are.
	StageCount
)

var stageNames = [StageCount]string{"auth", "limits", "history", "tokenize", "route", "queue", "prefill", "first_step",
	"write"}

// String returns the name of the stage as metrics show it.
func (s Stage) String() string { return stageNames[s] }

// Stages is the time that each stage took.
type Stages [StageCount]time.Duration

// StageBudgets are what each stage may take in the median, for a first token
// within a second in 95 of 100 cases: 330 ms with the network.
var StageBudgets = Stages{
	Auth:      3 * time.Millisecond,
	Limits:    2 * time.Millisecond,
	History:   10 * time.Millisecond,
	Tokenize:  5 * time.Millisecond,
	Route:     5 * time.Millisecond,
	Queue:     0,
	Prefill:   200 * time.Millisecond,
	FirstStep: 40 * time.Millisecond,
	Write:     5 * time.Millisecond,
}
