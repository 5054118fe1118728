package parley

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"sync"
)

// A BlockHash names the content of one full block of context: everything from
// the beginning of the sequence to the end of the block. Equal hashes mean
// equal keys and values, on any worker that runs the same model. The last eight
// bytes are its [BlockKey].
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
	var room [hashHeader + 4*64]byte // enough for the usual sizes of blocks
	name := BlockHash(sha256.Sum256(appendBlock(room[:0], parent, salt, tokens)))
	name.setKey(hashKey(parent.Key(), salt, tokens))
	return name
}

// hashHeader is the length of what is hashed before a block's tokens.
const hashHeader = len(BlockHash{}) + len(Salt{})

func appendBlock(to []byte, parent BlockHash, salt Salt, tokens []Token) []byte {
	to = append(append(to, parent[:]...), salt[:]...)
	for _, t := range tokens {
		to = binary.LittleEndian.AppendUint32(to, uint32(t))
	}
	return to
}

// AppendBlockHashes appends to names those of the full blocks of a sequence
// under one salt. parent is the name of the block before the tokens, zero at
// the beginning. Tokens after the last full block belong to no name.
func AppendBlockHashes(names []BlockHash, parent BlockHash, salt Salt, tokens []Token, blockTokens int) []BlockHash {
	if len(tokens) < 8*blockTokens { // too few to prepare for
		for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
			parent = HashBlock(parent, salt, tokens[:blockTokens])
			names = append(names, parent)
		}
		return names
	}
	h, _ := blockHashers.Get().(*blockHasher)
	if h == nil || h.blockTokens != blockTokens {
		h = newBlockHasher(blockTokens)
	}
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = h.sum(parent, salt, tokens[:blockTokens])
		names = append(names, parent)
	}
	blockHashers.Put(h)
	return names
}

// blockHashers has those that are not in use, mostly of one size.
var blockHashers sync.Pool

// A blockHasher computes what HashBlock does for many blocks of one size. The
// name of a block is needed for that of the next one, so a long prompt is a
// chain that cannot be divided among processors, and a router hashes each
// prompt: it is worth avoiding what [sha256.Sum256] does besides hashing.
// Padding is the same for all blocks and written once, so that the hash takes
// header, tokens and padding in one piece; after that its state is the sum,
// and is read from its encoding.
type blockHasher struct {
	digest hash.Hash
	state  encoding.BinaryAppender // nil if the sum cannot be read from it
	padded []byte                  // one block as SHA-256 sees it
	room   []byte
	// blockTokens is the size of the blocks.
	blockTokens int
}

// encodedState is where the encoding of a hash has its state.
const encodedState = 4

func newBlockHasher(blockTokens int) *blockHasher {
	h := &blockHasher{digest: sha256.New(), room: make([]byte, 0, 128), blockTokens: blockTokens}
	length := hashHeader + 4*blockTokens
	h.padded = make([]byte, (length+8)/sha256.BlockSize*sha256.BlockSize+sha256.BlockSize)
	h.padded[length] = 0x80
	binary.BigEndian.PutUint64(h.padded[len(h.padded)-8:], uint64(length)*8)
	h.state, _ = h.digest.(encoding.BinaryAppender)
	if zeros := make([]Token, blockTokens); h.sum(BlockHash{}, Salt{}, zeros) != HashBlock(BlockHash{}, Salt{}, zeros) {
		h.state = nil
	}
	return h
}

func (h *blockHasher) sum(parent BlockHash, salt Salt, tokens []Token) BlockHash {
	if h.state == nil {
		return HashBlock(parent, salt, tokens)
	}
	appendBlock(h.padded[:0], parent, salt, tokens)
	h.digest.Reset()
	h.digest.Write(h.padded)
	h.room, _ = h.state.AppendBinary(h.room[:0])
	if len(h.room) < encodedState+sha256.Size {
		return BlockHash{}
	}
	name := BlockHash(h.room[encodedState:])
	name.setKey(hashKey(parent.Key(), salt, tokens))
	return name
}
