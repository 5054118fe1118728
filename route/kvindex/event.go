package kvindex

import (
	"fmt"
	"slices"
	"time"

	"parley"
)

// A Worker is the number of a worker in this index, given by [Index.Join].
// Numbers of workers that left are given again.
type Worker int

// WorkersMax is how many workers an index can know at once. What a set of them takes
// grows with the number that are there, so that a small fleet pays nothing for it.
const WorkersMax = 4096

// A CacheTier is a kind of memory of a worker, the fastest first.
type CacheTier uint8

// The tiers. A worker may hold a block in several of them.
const (
	Device CacheTier = iota
	Host
	Disk
	expected // no event has said so: it was sent there
	tiers
)

// A Config says how long the index believes what no event has told. The zero
// value works.
type Config struct {
	// BlockTokens is the number of tokens in a block; 0 means 16. An engine
	// with blocks of another size needs an index of its own.
	BlockTokens int
	// ExpectFor is how long a prompt sent to a worker with events is taken to
	// be there before an event has said so; 0 means 5 s.
	ExpectFor time.Duration
	// RememberFor is the same where events are missing or not all there; 0
	// means 10 minutes.
	RememberFor time.Duration
	// RememberBlocks bounds what is remembered so of a worker whose capacity
	// is not known; 0 means 65,536.
	RememberBlocks int
	// PendingBlocks bounds the blocks in batches that wait for an earlier one,
	// for each worker; 0 means 65,536.
	PendingBlocks int
	// Seed keeps positions in tables secret from clients, who choose prompts.
	Seed uint64
}

func (c *Config) setDefaults() error {
	orDefault(&c.BlockTokens, 16)
	orDefault(&c.ExpectFor, 5*time.Second)
	orDefault(&c.RememberFor, 10*time.Minute)
	orDefault(&c.RememberBlocks, 1<<16)
	orDefault(&c.PendingBlocks, 1<<16)
	if c.BlockTokens < 1 || c.ExpectFor < 0 || c.RememberFor < 0 || c.RememberBlocks < 0 || c.PendingBlocks < 0 {
		return fmt.Errorf("kvindex: %+v has a negative number", *c)
	}
	return nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Source says what a worker reports about its blocks.
type Source struct {
	// Events is set if it publishes them. Otherwise only what was sent to it
	// is known.
	Events bool
	// Replay and Snapshot are set if it can be asked to repeat batches, and to
	// list everything it holds.
	Replay, Snapshot bool
	// CapacityBlocks is how many blocks its device can hold; 0 if unknown.
	CapacityBlocks int
	// Models are the names that events give to the model in question, of a worker
	// that has several: empty, if it is the one whose events have none. Events of
	// others are passed over. None are those of a worker with one model: all events
	// without a name.
	Models []string
}

// A Kind says what happened to blocks.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota // the blocks are in Tier
	Removed             // they are no longer in Tier
	Cleared             // the worker holds nothing any more
)

// An Event reports blocks added to or removed from one tier of a worker. A
// worker that uses our names gives their Keys; all others give the engine's own
// names, and with stored blocks their tokens.
type Event struct {
	Kind Kind
	Tier CacheTier
	// Model is the one whose blocks they are, by the worker's name for it. Empty is
	// the model that the worker runs when nothing else is said, and with removed
	// blocks any.
	Model string
	// Keys are those in our names of the blocks.
	Keys []parley.BlockKey
	// Engine are the engine's names, in order of position.
	Engine []uint64
	// Parent is the engine's name of the block before the first stored one,
	// unless First says that there is none.
	Parent uint64
	First  bool
	// Tokens are those of all stored blocks together, BlockTokens each. None
	// means that the engine moved blocks it has told of before.
	Tokens      []parley.Token
	BlockTokens int
	// Salt is the salt of the stored blocks if Salted; otherwise they have
	// their parent's, and without a parent the public one.
	Salt   parley.Salt
	Salted bool
}

// blocks returns how many blocks the event is about.
func (e *Event) blocks() int { return max(len(e.Keys), len(e.Engine), 1) }

// takes reports whether an event is about the model in question.
func (s *Source) takes(e *Event) bool {
	switch {
	case e.Kind == Cleared, e.Kind == Removed && e.Model == "":
		return true
	case len(s.Models) == 0:
		return e.Model == ""
	}
	return slices.Contains(s.Models, e.Model)
}
