package kv

import (
	"iter"

	"parley"
)

// stored notes that a node stands in its tier. tokens are nil if it is known
// from before.
func (l *eventLog) stored(c *Cache, id int32, tokens []parley.Token) {
	if len(l.ring) == 0 {
		return
	}
	at, n := l.add(), &c.tree.nodes[id]
	e := &l.ring[at]
	e.kind, e.tier, e.hash, e.parent = Stored, n.tier, n.hash, c.tree.nodes[n.parent].hash
	if tokens != nil {
		copy(l.tokensOf(id), tokens)
	}
	copy(l.block(l.tokens, at), l.tokensOf(id))
}

func (c *Cache) storedEvent(id int32) Event {
	n := &c.tree.nodes[id]
	return Event{
		Kind:   Stored,
		Hash:   n.hash,
		Parent: c.tree.nodes[n.parent].hash,
		Tier:   n.tier,
		Tokens: c.log.tokensOf(id),
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
			if !yield(l.event(at)) {
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
		given := make([]bool, len(c.tree.nodes))
		given[0] = true
		var path []int32
		for id := range c.tree.nodes {
			for at := int32(id); c.tree.nodes[at].sealed && !given[at]; at = c.tree.nodes[at].parent {
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
