package queue

import (
	"time"

	"parley"
)

// An Entry is one request that waits to be dispatched. The caller owns the memory, fills
// in the exported fields, and leaves them alone until the entry has ended.
type Entry struct {
	wrote time.Time // its latest token, beside what else every token needs
	state State
	// Class is the entry's tier, Tenant who it is for. Any text is a tenant.
	Class  parley.Class
	Tenant string
	// Person is set if a person waits for it and sees its position. People of a tenant
	// have an account of their own beside its programs. They wait instead of being
	// refused: only a queue that is full of other people refuses one.
	Person bool
	// Prompt counts its tokens, Cached those of them that are known to be
	// computed already, Choices the continuations wanted; 0 means one. CachedKnown
	// says that no more are: otherwise the tenant's mean may be taken.
	Prompt, Cached, Choices int
	CachedKnown             bool
	// MaxOutput bounds each continuation; 0 means that nothing does.
	MaxOutput int
	// Deadline is when dispatching it is worth nothing any more; zero leaves it to the tier.
	Deadline time.Time
	// Objective is what was promised of it. Its TTFT decides which entry of a tenant
	// goes first and how early a share of what comes is shed, its TPOT how many may be
	// written at once; a zero time leaves that to the config.
	Objective parley.SLO
	// Arrived is when it came, if it was in another queue before; zero is now.
	Arrived time.Time
	// Owner is for the caller, who gets entries back from the queue.
	Owner any

	order        uint64 // of arrival
	arrived      time.Time
	deadline     time.Time
	due          time.Time // its first token, as promised
	prompt       int       // tokens expected to be computed
	work         int
	tenant       *tenant
	link         neighbours
	expires      int // index in the heap of deadlines
	dispatchedAt time.Time
}

// A State is where an entry is. Every entry that was pushed ends in exactly one
// of Refused, Displaced, Expired, Cancelled and Finished.
type State uint8

// The states of an entry.
const (
	// Fresh entries were never pushed.
	Fresh State = iota
	Waiting
	// Held entries are with a worker that has not begun them, Running ones begun.
	Held
	Running
	Refused
	Displaced
	Expired
	Cancelled
	Finished
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"fresh", "waiting", "held", "running", "refused", "displaced", "expired", "cancelled",
		"finished"}[s]
}

// State returns where the entry is.
func (e *Entry) State() State { return e.state }

// Work returns what the entry is expected to cost, in tokens.
func (e *Entry) Work() int { return e.work }

// account names who the service of the entry is counted for.
func (e *Entry) account() string {
	if e.Person {
		return e.Tenant + "\x00people"
	}
	return e.Tenant
}

// Until returns when the waiting ends at the latest.
func (e *Entry) Until() time.Time { return e.deadline }

// Waited returns how long the entry has been waiting at now.
func (e *Entry) Waited(now time.Time) time.Duration { return now.Sub(e.arrived) }

// A Reason says why an entry was rejected.
type Reason string

// The reasons for which entries are rejected.
const (
	// Late: it would not have been dispatched before its deadline.
	Late Reason = "late"
	// Full: no entry may be displaced for it.
	Full Reason = "full"
	// Overload: a share of what comes is rejected, or more waited when the
	// overload was seen than can be served soon.
	Overload Reason = "overload"
	// ForOther: it was displaced.
	ForOther Reason = "displaced"
	// TooLong: its deadline passed while it waited.
	TooLong Reason = "expired"
)

// A Verdict is what becomes of an entry that comes.
type Verdict struct {
	// Refused is why it was rejected, empty if it waits now.
	Refused Reason
	// Wait is how long it is expected to wait, or would have been.
	Wait time.Duration
	// Retry is when it is worth asking again, if it was refused.
	Retry time.Duration
	// Displaced is the entry that had to go in its place, if one had to.
	Displaced *Entry
}
