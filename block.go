package parley

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// A BlockHash names the content of one full block of context: everything from
// the beginning of the sequence to the end of the block. Equal hashes mean
// equal keys and values, on any worker that runs the same model.
type BlockHash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h BlockHash) String() string { return hex.EncodeToString(h[:]) }

// A Salt divides contexts that must not be shared although their tokens are
// equal, such as those of different tenants. It belongs to a block and so may
// change at a block boundary: a public system prompt has the public salt, and
// everything after it the tenant's own. The zero value is the public salt.
type Salt [16]byte

// HashBlock returns the name of a block: parent is the name of the block
// before it, zero for the first one. The hash is cryptographic, because a
// tenant who could make two blocks collide would read another's context.
func HashBlock(parent BlockHash, salt Salt, tokens []Token) BlockHash {
	h := sha256.New()
	h.Write(parent[:])
	h.Write(salt[:])
	var word [4]byte
	for _, t := range tokens {
		binary.LittleEndian.PutUint32(word[:], uint32(t))
		h.Write(word[:])
	}
	var out BlockHash
	h.Sum(out[:0])
	return out
}
