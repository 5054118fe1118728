package kvindex

import (
	"iter"
	"time"
)

// State returns how far the index can be trusted about a worker.
func (x *Index) State(w Worker) State {
	if s := &x.workers[w].stream; s.state == Exact && s.partial {
		return Degraded
	}
	return x.workers[w].stream.state
}

// Wants returns what the worker was to be asked for and has not given yet, so
// that a question that was lost can be repeated.
func (x *Index) Wants(w Worker) Ask {
	switch s := &x.workers[w].stream; s.state {
	case Behind:
		return Ask{Replay: true, From: s.next}
	case Rebuilding:
		return Ask{Snapshot: true}
	}
	return Ask{}
}

// Apply takes a batch, live or replayed, in any order. It returns what the
// worker must be asked for because of it.
func (x *Index) Apply(w Worker, b Batch) Ask {
	x.sweep()
	defer x.sharpen(w, x.workers[w].stream.exact())
	s, counts := &x.workers[w].stream, &x.workers[w].counts
	counts.Batches++
	if s.reconnected && b.Seq < s.next {
		x.Restarted(w)
	}
	s.reconnected = false
	switch {
	case s.state == Approximate:
		counts.Unplaced += uint64(b.blocks())
	case s.state == Rebuilding:
		for tooMany := s.keep(&b, x.cfg.PendingBlocks); tooMany &&
			len(s.pending) > 0; tooMany = s.pendingBlocks > x.cfg.PendingBlocks {
			s.pop() // the snapshot will most likely be later
		}
	case b.Seq < s.next:
		counts.Repeated++
	case b.Seq == s.next:
		x.take(w, &b)
		x.takePending(w)
	default:
		return x.gap(w, &b)
	}
	return Ask{}
}

// gap keeps a batch that came too early.
func (x *Index) gap(w Worker, b *Batch) Ask {
	s := &x.workers[w].stream
	tooMany := s.keep(b, x.cfg.PendingBlocks)
	switch was := s.state; {
	case tooMany:
		return x.lose(w)
	case was == Behind:
		return Ask{}
	case was == Joining && x.workers[w].source.Snapshot:
		s.state = Rebuilding
		return x.Wants(w)
	case was == Exact:
		x.workers[w].counts.Gaps++
	}
	return x.catchUp(w)
}

// catchUp asks for the batches from next on.
func (x *Index) catchUp(w Worker) Ask {
	s := &x.workers[w].stream
	if !x.workers[w].source.Replay {
		return x.unreachable(w)
	}
	s.state, s.asked = Behind, s.next
	return x.Wants(w)
}

// ReplayEnded notes that everything the worker can repeat was applied. It
// returns what the worker is asked for next.
func (x *Index) ReplayEnded(w Worker) Ask {
	defer x.sharpen(w, x.workers[w].stream.exact())
	s := &x.workers[w].stream
	if s.state != Behind {
		return Ask{}
	}
	if s.next > s.asked { // it helped, but there is another gap since
		return x.catchUp(w)
	}
	return x.unreachable(w)
}

// unreachable continues from the earliest waiting batch, because the ones before it
// are not available. Nothing is lost if there are none before it: some engines count
// from 1.
func (x *Index) unreachable(w Worker) Ask {
	s := &x.workers[w].stream
	if s.next > 0 || s.pending[0].Seq > 1 {
		return x.lose(w)
	}
	s.next = 1
	x.takePending(w)
	if len(s.pending) > 0 {
		return x.catchUp(w)
	}
	return Ask{}
}

// lose drops what events have told of a worker, because later ones are missing.
func (x *Index) lose(w Worker) Ask {
	s := &x.workers[w].stream
	x.workers[w].counts.Losses++
	if x.workers[w].source.Snapshot {
		x.drop(w, Device, Host, Disk)
		// What has come is in the snapshot, unless a process has published it that is
		// gone: then it would be waited for for ever.
		s.state, s.pending, s.pendingBlocks = Rebuilding, nil, 0
		return x.Wants(w)
	}
	for len(s.pending) > 0 {
		x.drop(w, Device, Host, Disk)
		s.next, s.partial = s.pending[0].Seq, true
		x.takePending(w)
	}
	return Ask{}
}

// Restore replaces what is known of a worker by a snapshot of everything it
// held after batch seq, as stored events with parents before children. It
// returns what the worker is asked for next.
func (x *Index) Restore(w Worker, seq uint64, blocks iter.Seq[Event]) Ask {
	defer x.sharpen(w, x.workers[w].stream.exact())
	s := &x.workers[w].stream
	if s.state == Approximate {
		return Ask{}
	}
	x.workers[w].counts.Snapshots++
	x.drop(w, Device, Host, Disk)
	for e := range blocks {
		x.prepare(w, &e)
		x.begin()
		x.apply(w, &e)
	}
	s.next, s.partial = seq+1, false
	for len(s.pending) > 0 && s.pending[0].Seq <= seq {
		s.pop()
	}
	x.takePending(w)
	if len(s.pending) > 0 {
		x.workers[w].counts.Gaps++
		return x.catchUp(w)
	}
	return Ask{}
}

// take applies the batch that continues what is known.
func (x *Index) take(w Worker, b *Batch) {
	for i := range b.Events {
		if i == 0 {
			x.prepare(w, &b.Events[0])
		}
		x.begin()
		if i+1 < len(b.Events) {
			x.prepare(w, &b.Events[i+1])
		}
		x.apply(w, &b.Events[i])
	}
	x.workers[w].stream.next = b.Seq + 1
}

// takePending applies the waiting batches that continue what is known. If none
// is left, nothing is missing.
func (x *Index) takePending(w Worker) {
	s := &x.workers[w].stream
	for len(s.pending) > 0 && s.pending[0].Seq <= s.next {
		if b := s.pop(); b.Seq == s.next {
			x.take(w, &b)
		}
	}
	if len(s.pending) == 0 {
		s.state = Exact
	}
}

// Reconnected notes that the connection to a worker's events was made anew.
// Batches may be missing, and if numbers begin anew, so did the worker.
func (x *Index) Reconnected(w Worker) { x.workers[w].stream.reconnected = true }

// Restarted notes that a worker is a new process: it holds nothing.
func (x *Index) Restarted(w Worker) {
	x.drop(w, Device, Host, Disk, expected)
	x.workers[w].stream = newStream(x.workers[w].source)
}

// sharpen makes the next Expire look at everything if the worker has become
// exact, as what was sent to it is remembered for a shorter time now.
func (x *Index) sharpen(w Worker, was bool) {
	if !was && x.workers[w].stream.exact() && x.workers[w].held[expected] > 0 {
		x.expiries[w], x.expireAt = time.Unix(0, 0), time.Unix(0, 0)
	}
}

// Stats is what is known of one worker, for metrics. Gaps and losses should be
// rare, and a worker that stays in another state than [Exact] needs a look.
type Stats struct {
	State State
	Counts
	// Held counts the blocks that events told of; a block in two tiers counts
	// twice. Expected counts those that were only sent there.
	Held, Expected int
}

// Stats returns what is known of a worker.
func (x *Index) Stats(w Worker) Stats {
	k := x.workers[w]
	return Stats{State: x.State(w), Counts: k.counts, Held: k.held[Device] + k.held[Host] + k.held[Disk],
		Expected: k.held[expected]}
}

// Blocks returns how many blocks any worker holds.
func (x *Index) Blocks() int { return x.table.size.entries - x.sets.abandoned }
