package traffic

import (
	"encoding/binary"
	"math/bits"

	"parley"
)

// AppendNames appends names of the full blocks of size tokens of a text that consists of
// parts. Two blocks have the same name if their tokens and those of all blocks before
// them are the same, as with [parley.AppendBlockHashes], unless they are the same by chance.
// The tokens need not be known: a name depends on keys and places. It is not cryptographic.
func (c Content) AppendNames(names []parley.BlockHash, parts []Part, size int) []parley.BlockHash {
	base := uint64(c.choices())
	a := scatter(c.Seed)
	b := scatter(a)
	room := size
	for _, p := range parts {
		for at := 0; at < p.Tokens; {
			n := min(room, p.Tokens-at)
			key, place := spelled(p.Key, at+n, base), uint64(at)<<32|uint64(n)
			a, b = scatter(scatter(a+key)+place), scatter(scatter(b^key)^place)
			at += n
			if room -= n; room == 0 {
				names = append(names, nameOf(a, b))
				room = size
			}
		}
	}
	return names
}

func nameOf(a, b uint64) (name parley.BlockHash) {
	for i, word := range [...]uint64{a, b, a + b, b} { // caches look at its beginning, routers at its end
		binary.LittleEndian.PutUint64(name[8*i:], word)
	}
	return name
}

// spelled returns what the first n tokens of a key depend on: its n lowest digits.
func spelled(key uint64, n int, base uint64) uint64 {
	if n >= 16 && base >= 16 { // no key has more digits
		return key
	}
	place := uint64(1)
	for range n {
		more, low := bits.Mul64(place, base)
		if more != 0 {
			return key
		}
		place = low
	}
	return key % place
}
