package token

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"parley"
)

// Fingerprint identifies a vocabulary: the ids, bytes and flags of its tokens and the rules that build them. Two
// machines with equal fingerprints can exchange token ids.
func (t *Tokenizer) Fingerprint() [sha256.Size]byte { return t.fingerprint() }

func (t *Tokenizer) sum() (out [sha256.Size]byte) {
	h := sha256.New()
	for id := range t.Size() {
		id := parley.Token(id)
		if !t.vocabulary.has(id) {
			continue
		}
		flags := uint64(0)
		if t.IsSpecial(id) {
			flags = 1
		}
		writeNumbers(h, uint64(id), flags)
		writeText(h, string(t.Bytes(id)))
	}
	h.Write(t.rulesSum[:])
	h.Sum(out[:0])
	return out
}

// writeNumbers and writeText keep the fields apart: equal sums mean equal fields.
func writeNumbers(h hash.Hash, numbers ...uint64) {
	var buf [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(buf[:], n)
		h.Write(buf[:])
	}
}

func writeText(h hash.Hash, text string) {
	writeNumbers(h, uint64(len(text)))
	h.Write([]byte(text))
}
