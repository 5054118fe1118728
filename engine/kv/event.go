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
	ring        []loggedEvent
	next        uint64         // Seq of the next event, less one
	tokens      []parley.Token // of the ring's events
	nodeTokens  []parley.Token // of the nodes
	blockTokens int
}

// A loggedEvent is an event without what follows from its place in the ring.
type loggedEvent struct {
	hash, parent parley.BlockHash
	kind         EventKind
	tier         Tier
}

func newEventLog(cfg Config, blocks int) eventLog {
	l := eventLog{blockTokens: cfg.BlockTokens, ring: make([]loggedEvent, cfg.Events)}
	if cfg.Events > 0 && !cfg.NoTokens {
		l.tokens = make([]parley.Token, cfg.Events*cfg.BlockTokens)
		l.nodeTokens = make([]parley.Token, (blocks+1)*cfg.BlockTokens)
	}
	return l
}

// tokensOf returns those of a node, nil if none are kept.
func (l *eventLog) tokensOf(id int32) []parley.Token { return l.block(l.nodeTokens, int(id)) }

// block returns the tokens of one block of many, nil if none are kept.
func (l *eventLog) block(tokens []parley.Token, at int) []parley.Token {
	if len(tokens) == 0 {
		return nil
	}
	return tokens[at*l.blockTokens:][:l.blockTokens:l.blockTokens]
}

// add returns the place of the next event in the ring.
func (l *eventLog) add() (at int) {
	at = int(l.next % uint64(len(l.ring)))
	l.next++
	return at
}

// event returns the one with a number, counted from 0. It must be kept.
func (l *eventLog) event(number uint64) Event {
	at := int(number % uint64(len(l.ring)))
	e := &l.ring[at]
	out := Event{
		Seq:    number + 1,
		Kind:   e.kind,
		Hash:   e.hash,
		Parent: e.parent,
		Tier:   e.tier,
	}
	if e.kind == Stored {
		out.Tokens = l.block(l.tokens, at)
	}
	return out
}

// blank notes that the tokens of a node are not known.
func (l *eventLog) blank(id int32) {
	clear(l.tokensOf(id))
}

func (l *eventLog) removed(hash parley.BlockHash, t Tier) {
	if len(l.ring) > 0 {
		l.ring[l.add()] = loggedEvent{kind: Removed, hash: hash, tier: t}
	}
}

func (l *eventLog) cleared() {
	if len(l.ring) > 0 {
		l.ring[l.add()] = loggedEvent{kind: Cleared}
	}
}
