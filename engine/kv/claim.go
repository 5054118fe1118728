package kv

import (
	"time"

	"parley"
)

// A Claim is what a sequence asks for at admission.
type Claim struct {
	// Prompt is the whole prompt, at least one token. It is not kept. A
	// simulator that knows no tokens sets PromptTokens instead, their number;
	// it is not told of [MissOtherSalt].
	Prompt       []parley.Token
	PromptTokens int
	// Hashes are the names of the prompt's full blocks, in order. More than
	// that are ignored; with fewer, less is shared.
	Hashes []parley.BlockHash
	// Tenant and Class say whose budgets the blocks count against once cached.
	Tenant, Class string
	// Retain is how long the blocks should survive the sequence at least, if
	// retention has room. At most Config.RetainMax is used.
	Retain time.Duration
	// Again says that the sequence was admitted before: what it finds is its own
	// and no success of the cache.
	Again bool
	// Above, if not zero, is a tier that is too slow to be worth a copy: blocks
	// there and below are computed again.
	Above Tier
}

func (q *Claim) tokens() int { return max(len(q.Prompt), q.PromptTokens) }

// A Miss says why the first block that was not found was not there. It is for
// operators: a tenant who could see OtherSalt would learn what others ask.
type Miss uint8

// The reasons.
const (
	// MissNone: every full block of the prompt was found.
	MissNone Miss = iota
	// MissShort: the prompt has no full block.
	MissShort
	// MissNew: nothing is known of this block.
	MissNew
	// MissDiverged: the block before it is known with another continuation.
	MissDiverged
	// MissEvicted: it was cached and had to go, or went where it is not worth fetching from.
	MissEvicted
	// MissOtherSalt: the same tokens are cached under another salt.
	MissOtherSalt
	misses

	// Misses is how many reasons there are.
	Misses = int(misses)
)

// String returns the reason in one word.
func (m Miss) String() string {
	return [...]string{"none", "short", "new", "diverged", "evicted", "other-salt", "?"}[min(m, misses)]
}

// An Admission says what a claim got.
type Admission struct {
	// HitTokens is how many leading tokens of the prompt need not be computed.
	// It is less than the prompt, since the last token must be.
	HitTokens int
	// HitBlocks counts the blocks found, by the tier they were found in.
	HitBlocks [tiers]int
	// Miss says why the block with index MissBlock, the first that was not
	// found, was not there.
	Miss      Miss
	MissBlock int
}
