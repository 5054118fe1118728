package admin

import "parley"

// A Fleet gives operators access to workers in other processes. Its functions may be
// called at any time.
type Fleet struct {
	// Workers returns the workers and their state.
	Workers func() []Worker
	// Drain lets a worker finish and sends it no new requests; Resume ends that. Sleep
	// has it release its memory once it is idle, Wake load the model again; a request
	// for a model that no other worker has wakes it, too. Errors are [parley.Error].
	Drain, Resume, Sleep, Wake func(name string) error
}

// Absent is the state of a worker that is known and could not join.
const Absent = "absent"

// A Finding is a family of prompts that used to hit the cache and no longer does,
// because something near their beginning changes from one to the next.
type Finding struct {
	// At is in seconds since 1970.
	At     int64  `json:"at"`
	Model  string `json:"model"`
	Tenant string `json:"tenant"`
	// Family is the model, what its answers are for, and the application: its name in metadata, or its
	// key. System is how its system prompt begins.
	Family string `json:"family"`
	System string `json:"system,omitzero"`
	// HitsBefore and HitsNow are hit rates.
	HitsBefore float64 `json:"hits_before"`
	HitsNow    float64 `json:"hits_now"`
	// The change lies between tokens From and To; To is 0 if it extends to the end. The
	// prompts agree for the StableTokens before it.
	From         int `json:"from"`
	To           int `json:"to"`
	StableTokens int `json:"stable_tokens"`
	// Was and Now are example tokens of the change, WasText and NowText their text.
	Was     []parley.Token `json:"was"`
	Now     []parley.Token `json:"now"`
	WasText string         `json:"was_text"`
	NowText string         `json:"now_text"`
	Text    string         `json:"text"`
}
