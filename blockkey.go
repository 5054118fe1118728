package parley

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A BlockKey is the part of a block's name by which routers find it. Like the
// name it says everything from the beginning of the sequence to the end of the
// block, but it can be had without the rest, at a fraction of the price: a
// router hashes every prompt, and every block that any worker reports.
//
// It is not cryptographic, and need not be. A client that makes two blocks
// agree in their keys has a prompt sent to a worker that has not computed it, and gains
// nothing: workers compare names. And the salts of other tenants, which it does not
// know, are part of their keys.
type BlockKey uint64

// keyAt is where a name has its key.
const keyAt = len(BlockHash{}) - 8

// Key returns the key in a name.
func (h *BlockHash) Key() BlockKey { return BlockKey(binary.LittleEndian.Uint64(h[keyAt:])) }

func (h *BlockHash) setKey(k BlockKey) { binary.LittleEndian.PutUint64(h[keyAt:], uint64(k)) }

// Odd numbers without a pattern, which the key's definition needs.
const (
	keySeed  = 0x9e3779b97f4a7c15
	keyEven  = 0xa0761d6478bd642f
	keyOdd   = 0xe7037ed1a0b428db
	keyChain = 0x8ebc6af09c88c6e3
	keyLast  = 0x589965cc75374cc3
)

// AppendBlockKeys appends to keys those of the full blocks of a sequence under
// one salt. parent is the key of the block before the tokens, zero at the
// beginning. They are the keys in the names of [AppendBlockHashes].
func AppendBlockKeys(keys []BlockKey, parent BlockKey, salt Salt, tokens []Token, blockTokens int) []BlockKey {
	begin, end := keySalts(salt, blockTokens)
	if blockTokens == 16 {
		return appendKeys16(keys, parent, begin, end, tokens)
	}
	keys = slices.Grow(keys, len(tokens)/blockTokens)
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = chainKey(parent, end, foldTokens(begin, tokens[:blockTokens]))
		keys = append(keys, parent)
	}
	return keys
}

// appendKeys16 does that for the size that most blocks have: without a loop and a
// call for each block it takes half the time.
func appendKeys16(keys []BlockKey, parent BlockKey, begin, end uint64, tokens []Token) []BlockKey {
	done, blocks := len(keys), len(tokens)/16
	keys = slices.Grow(keys, blocks)[:done+blocks]
	for i := range keys[done:] {
		t := (*[16]Token)(tokens)
		tokens = tokens[16:]
		sum := fold(begin^pair(t[0], t[1])^keyEven, pair(t[2], t[3])^keyOdd)
		sum = fold(sum^pair(t[4], t[5])^keyEven, pair(t[6], t[7])^keyOdd)
		sum = fold(sum^pair(t[8], t[9])^keyEven, pair(t[10], t[11])^keyOdd)
		sum = fold(sum^pair(t[12], t[13])^keyEven, pair(t[14], t[15])^keyOdd)
		parent = chainKey(parent, end, sum)
		keys[done+i] = parent
	}
	return keys
}

// hashKey returns the key of one block.
func hashKey(parent BlockKey, salt Salt, tokens []Token) BlockKey {
	begin, end := keySalts(salt, len(tokens))
	return chainKey(parent, end, foldTokens(begin, tokens))
}

// keySalts returns what the two halves of a salt give to the keys of blocks.
func keySalts(salt Salt, blockTokens int) (begin, end uint64) {
	begin = binary.LittleEndian.Uint64(salt[:]) ^ uint64(blockTokens)*keySeed
	return begin, binary.LittleEndian.Uint64(salt[8:]) ^ keyChain
}

// chainKey joins a block's tokens to what comes before. Only this must wait for
// the key before, so that processors work at several blocks at once.
func chainKey(parent BlockKey, end, content uint64) BlockKey {
	return BlockKey(fold(uint64(parent)^end, content^keyLast))
}

// foldTokens takes four tokens at a time.
func foldTokens(sum uint64, tokens []Token) uint64 {
	for ; len(tokens) >= 4; tokens = tokens[4:] {
		t := tokens[:4:4]
		sum = fold(sum^pair(t[0], t[1])^keyEven, pair(t[2], t[3])^keyOdd)
	}
	for _, t := range tokens {
		sum = fold(sum^keyOdd, pair(t, 0)^keyEven)
	}
	return sum
}

func pair(a, b Token) uint64 { return uint64(uint32(a)) | uint64(uint32(b))<<32 }

// fold multiplies, and keeps something of all bits of the product.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
