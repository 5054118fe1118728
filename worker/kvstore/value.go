package kvstore

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"parley"
)

// magic begins every value. Another layout of values has another one.
const magic = "PKV1"

// headBytes is what stands before the payload: magic and sum.
const headBytes = len(magic) + 8

// keyOf returns the key of a block under the digest of its format.
func keyOf(digest string, name *parley.BlockHash) string {
	return "parley-kv/" + digest + "/" + name.String()
}

func sumOf(digest string, name *parley.BlockHash, payload []byte) uint64 {
	var h xxhash.Digest
	h.Reset()
	_, _ = h.WriteString(digest)
	_, _ = h.Write(name[:])
	_, _ = h.Write(payload)
	return h.Sum64()
}

// seal writes the head of a value whose payload is there already.
func seal(digest string, name *parley.BlockHash, value []byte) {
	copy(value, magic)
	binary.BigEndian.PutUint64(value[len(magic):], sumOf(digest, name, value[headBytes:]))
}

// open returns the payload of a value.
func open(digest string, name *parley.BlockHash, value []byte) (payload []byte, err error) {
	if len(value) < headBytes || string(value[:len(magic)]) != magic {
		return nil, &fault{errDamaged, fmt.Errorf("a value of %d bytes does not begin with %s", len(value), magic)}
	}
	payload = value[headBytes:]
	if binary.BigEndian.Uint64(value[len(magic):]) != sumOf(digest, name, payload) {
		return nil, &fault{errDamaged, fmt.Errorf("the sum of a value is wrong")}
	}
	return payload, nil
}
