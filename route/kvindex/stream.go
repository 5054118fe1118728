package kvindex

import (
	"cmp"
	"fmt"
	"slices"
)

// A Batch is what a worker publishes at once. Seq counts its batches: the next
// one has the next number. Slices in it are only used during the call that it
// is given to.
type Batch struct {
	Seq    uint64
	Events []Event
}

func (b *Batch) blocks() (n int) {
	for i := range b.Events {
		n += b.Events[i].blocks()
	}
	return n
}

func (b *Batch) clone() Batch {
	own := Batch{Seq: b.Seq, Events: slices.Clone(b.Events)}
	for i := range own.Events {
		e := &own.Events[i]
		e.Keys, e.Engine, e.Tokens = slices.Clone(e.Keys), slices.Clone(e.Engine), slices.Clone(e.Tokens)
	}
	return own
}

// A State says how far the index can be trusted about a worker.
type State uint8

// The states.
const (
	// Approximate: no events; only what was sent to the worker is known.
	Approximate State = iota
	// Joining: events are expected, none has come.
	Joining
	// Exact: all events up to the latest batch are known.
	Exact
	// Behind: batches are missing and a replay was asked for. What is known is
	// from before.
	Behind
	// Rebuilding: what was missed cannot be had; a snapshot was asked for.
	Rebuilding
	// Degraded: what was missed cannot be had and there is no snapshot. What
	// events said since is known, and what was sent.
	Degraded
)

// String returns the state in one word.
func (s State) String() string {
	return [...]string{"approximate", "joining", "exact", "behind", "rebuilding", "degraded"}[s]
}

// An Ask is what a worker should be asked for. The zero value is nothing.
type Ask struct {
	// Replay asks for all batches from number From on, to be given to
	// [Index.Apply] and followed by [Index.ReplayEnded].
	Replay bool
	From   uint64
	// Snapshot asks for everything the worker holds, for [Index.Restore].
	Snapshot bool
}

// String returns what is asked for in one line.
func (a Ask) String() string {
	switch {
	case a.Replay:
		return fmt.Sprintf("replay from %d", a.From)
	case a.Snapshot:
		return "snapshot"
	}
	return "nothing"
}

// A stream is where a worker's sequence of batches stands.
type stream struct {
	state State // never Degraded: that is Exact and partial
	// next is the number of the batch that continues what is known.
	next uint64
	// asked is what next was when a replay was asked for.
	asked uint64
	// partial: something was missed that events since cannot make up for.
	partial bool
	// reconnected: the next batch may come from a new process, with numbers
	// from the beginning.
	reconnected   bool
	pending       []Batch // later than next, in order; empty while Exact
	pendingBlocks int
}

func newStream(s Source) stream {
	if s.Events {
		return stream{state: Joining}
	}
	return stream{}
}

func (s *stream) exact() bool { return s.state == Exact && !s.partial }

// keep puts a batch that came too early in its place, and reports whether
// there are more blocks waiting now than may.
func (s *stream) keep(b *Batch, most int) (tooMany bool) {
	at, have := slices.BinarySearchFunc(s.pending, b.Seq, func(p Batch, seq uint64) int {
		return cmp.Compare(p.Seq, seq)
	})
	if !have {
		s.pending = slices.Insert(s.pending, at, b.clone())
		s.pendingBlocks += b.blocks()
	}
	return s.pendingBlocks > most
}

// pop removes the earliest waiting batch.
func (s *stream) pop() Batch {
	b := s.pending[0]
	s.pending[0] = Batch{}
	s.pending = s.pending[1:]
	s.pendingBlocks -= b.blocks()
	return b
}

// Counts is what has happened to a worker's stream so far.
type Counts struct {
	// Batches were given to Apply, Repeated of them more than once.
	Batches, Repeated uint64
	// Stored and Removed are blocks. Unplaced ones could not be understood:
	// their parent or their engine's name is not known, or their size differs.
	Stored, Removed, Unplaced uint64
	// Gaps are holes in the numbers; Losses those that no replay filled;
	// Snapshots how often everything was replaced.
	Gaps, Losses, Snapshots uint64
}
