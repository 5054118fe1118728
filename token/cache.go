package token

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"parley"
)

const (
	// cachedWordMax and cachedTokensMax make an entry as large as a cache line.
	cachedWordMax   = 38
	cachedTokensMax = 6
	cacheSlots      = 1 << 16
	cacheSlotsMask  = cacheSlots - 1
	// keepOdds: a word displaces another one time in this many, so that a flood of words seen once neither
	// empties the cache nor allocates.
	keepOdds = 8
)

// A wordCache remembers the tokens of short words. It is a table of immutable entries behind atomic pointers: readers
// never wait, writers overwrite, and its size is fixed.
type wordCache struct {
	seed  maphash.Seed
	slots [cacheSlots]atomic.Pointer[cachedWord]
}

type cachedWord struct {
	bytes, tokens uint8
	word          [cachedWordMax]byte
	ids           [cachedTokensMax]parley.Token
}

// A hashFilter has a bit for the hash of each member of a set. It answers most questions about others without
// touching the set.
type hashFilter []uint64

func newHashFilter(members int) hashFilter {
	return make(hashFilter, 1<<bits.Len(uint(members/4)))
}

func (f hashFilter) place(hash uint64) (word int, bit uint64) {
	return int(hash >> 6 & uint64(len(f)-1)), 1 << (hash & 63)
}

func (f hashFilter) add(hash uint64) {
	word, bit := f.place(hash)
	f[word] |= bit
}

func (f hashFilter) mayHave(hash uint64) bool {
	word, bit := f.place(hash)
	return f[word]&bit != 0
}

func newWordCache() *wordCache { return &wordCache{seed: maphash.MakeSeed()} }

func (c *wordCache) hash(word string) uint64 { return maphash.String(c.seed, word) }

func (c *wordCache) find(hash uint64, word string) ([]parley.Token, bool) {
	e := c.slots[hash&cacheSlotsMask].Load()
	if e == nil || string(e.word[:e.bytes]) != word {
		return nil, false
	}
	return e.ids[:e.tokens], true
}

// store keeps the tokens of a word; misses counts the words that were not found.
func (c *wordCache) store(hash uint64, word string, ids []parley.Token, misses *uint32) {
	slot := &c.slots[hash&cacheSlotsMask]
	if *misses++; *misses%keepOdds != 0 && slot.Load() != nil || len(ids) > cachedTokensMax {
		return
	}
	e := &cachedWord{bytes: uint8(len(word)), tokens: uint8(len(ids))}
	copy(e.word[:], word)
	copy(e.ids[:], ids)
	slot.Store(e)
}
