package kv

import (
	"iter"

	"parley"
)

// An EventKind says what happened to a block.
type EventKind uint8

// The kinds of events.
const (
	Stored  EventKind = iota // a block can be found in Tier
	Removed                  // it can no longer be found in Tier
	Cleared                  // no block can be found any more, in any tier
)

// An Event reports a change of this cache to a router. A block that changes its tier
// is stored in the new one before it is removed from the old one.
type Event struct {
	// Seq counts events from 1; none is left out.
	Seq  uint64
	Kind EventKind
	// Hash names the block, Parent the one before it (zero for the first).
	Hash, Parent parley.BlockHash
	Tier         Tier
	// Tokens are the block's own, of a stored one; zeros if it was sealed
	// without. They are valid until the next operation on the cache.
	Tokens []parley.Token
}

// An eventLog keeps the latest events, and the tokens of all sealed blocks so
// that a snapshot has them. Without a ring it does nothing.
type eventLog struct {
	ring        []Event
	next        uint64         // Seq of the next event, less one
	tokens      []parley.Token // of the ring's events
	nodeTokens  []parley.Token // of the nodes
	blockTokens int
}

func newEventLog(cfg Config, blocks int) eventLog {
	l := eventLog{blockTokens: cfg.BlockTokens, ring: make([]Event, cfg.Events)}
	if cfg.Events > 0 {
		l.tokens = make([]parley.Token, cfg.Events*cfg.BlockTokens)
		l.nodeTokens = make([]parley.Token, (blocks+1)*cfg.BlockTokens)
	}
	return l
}

func (l *eventLog) of(id int32) []parley.Token {
	return l.nodeTokens[int(id)*l.blockTokens:][:l.blockTokens:l.blockTokens]
}

func (l *eventLog) add(e Event) {
	at := int(l.next % uint64(len(l.ring)))
	l.next++
	e.Seq = l.next
	if e.Tokens != nil {
		own := l.tokens[at*l.blockTokens:][:l.blockTokens:l.blockTokens]
		copy(own, e.Tokens)
		e.Tokens = own
	}
	l.ring[at] = e
}

// stored notes that a node stands in its tier. tokens are nil if it is known
// from before.
func (l *eventLog) stored(c *Cache, id int32, tokens []parley.Token) {
	if len(l.ring) == 0 {
		return
	}
	if tokens != nil {
		copy(l.of(id), tokens)
	}
	l.add(c.storedEvent(id))
}

// blank notes that the tokens of a node are not known.
func (l *eventLog) blank(id int32) {
	if len(l.ring) > 0 {
		clear(l.of(id))
	}
}

func (c *Cache) storedEvent(id int32) Event {
	n := &c.nodes[id]
	return Event{
		Kind:   Stored,
		Hash:   n.hash,
		Parent: c.nodes[n.parent].hash,
		Tier:   n.tier,
		Tokens: c.log.of(id),
	}
}

func (l *eventLog) removed(hash parley.BlockHash, t Tier) {
	if len(l.ring) > 0 {
		l.add(Event{Kind: Removed, Hash: hash, Tier: t})
	}
}

func (l *eventLog) cleared() {
	if len(l.ring) > 0 {
		l.add(Event{Kind: Cleared})
	}
}

// Seq returns the number of the latest event.
func (c *Cache) Seq() uint64 { return c.log.next }

// EventsSince returns the events after seq, oldest first, or false if some of
// them are no longer kept, in which case a [Cache.Snapshot] is needed. The
// cache must not be changed during the iteration.
func (c *Cache) EventsSince(seq uint64) (iter.Seq[Event], bool) {
	l := &c.log
	kept := min(l.next, uint64(len(l.ring)))
	if seq > l.next || seq < l.next-kept {
		return nil, false
	}
	return func(yield func(Event) bool) {
		for at := seq; at < l.next; at++ {
			if !yield(l.ring[at%uint64(len(l.ring))]) {
				return
			}
		}
	}, true
}

// Snapshot returns every block that can be found, parents before children, as
// stored events of the present Seq. Events after that number continue it. It
// is empty when no events are kept. The cache must not be changed during the
// iteration.
func (c *Cache) Snapshot() (seq uint64, blocks iter.Seq[Event]) {
	return c.log.next, func(yield func(Event) bool) {
		if len(c.log.ring) == 0 {
			return
		}
		given := make([]bool, len(c.nodes))
		given[0] = true
		var path []int32
		for id := range c.nodes {
			for at := int32(id); c.nodes[at].sealed && !given[at]; at = c.nodes[at].parent {
				path = append(path, at)
				given[at] = true
			}
			for len(path) > 0 {
				e := c.storedEvent(path[len(path)-1])
				e.Seq = c.log.next
				if !yield(e) {
					return
				}
				path = path[:len(path)-1]
			}
		}
	}
}
