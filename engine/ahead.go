package engine

import (
	"time"

	"parley/compute"
)

// Ahead are steps whose tokens the device chooses itself, so that the host plans the
// next step while the device computes this one.
//
// The plan of a step that follows one in flight knows everything but which tokens
// that one chooses. What it must not know it does not use. Penalties count the token on
// the device. What a grammar allows next depends on the token, so a step that chooses
// for a grammar is landed before the next one is planned. What a plan assumes is that no
// sequence ends; if one does, what the next step computes for it is dropped, and since steps
// and copies happen on the device in the order in which they were asked for, nothing else
// notices. So the tokens are the same as without.
type Ahead struct {
	// Launch starts a step after those launched before, and returns before it is
	// computed. For each output row a token is chosen by the draw of that number. Tokens
	// less than 0 name tokens that the step before chose; see [compute.Chosen].
	Launch func(step *compute.Step, draws []compute.Draw)
	// Wait returns when the oldest step in flight is computed, with what it chose. That
	// is valid until the next call.
	Wait func() []compute.DrawResult
}

// A flight is a step that was launched and is not complete.
type flight struct {
	parts   []flightPart
	pass    StepReport
	began   time.Time
	behind  bool // it was launched while another was in flight
	awaited bool // the next plan must know what it chooses
	exposed time.Duration
}

// A flightPart is the share of one choice in a flight; output is -1 if no token is
// chosen for it.
type flightPart struct {
	c      *choice
	output int
}

// inFlight has the steps that were launched and are not complete.
type inFlight struct {
	flights []*flight // the oldest first
	flown   int       // passes since one was last computed without being launched
	ended   time.Time // the last pass; zero if nothing is computed after it at once
}
