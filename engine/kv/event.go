package kv

import "parley"

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

// blank notes that the tokens of a node are not known.
func (l *eventLog) blank(id int32) {
	if len(l.ring) > 0 {
		clear(l.of(id))
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
