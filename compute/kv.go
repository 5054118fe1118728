package compute

import (
	"fmt"
	"slices"
	"strings"
)

// BlockTokens is the number of tokens one block of the key/value pool holds.
const BlockTokens = 16

// A KVType is how keys and values are kept in the pool. What is computed with
// them is float32 whatever the type: they are rounded once, when they are stored.
//
// The eight-bit types keep one scale for the key, and one for the value, of
// each token and head. So what a token becomes depends on that token alone,
// never on which tokens were stored together with it.
type KVType uint8

// The types of a pool. Their order is part of no file and no protocol.
const (
	// KVF32 keeps float32, so it loses nothing. It is the zero value.
	KVF32 KVType = iota
	// KVBF16 keeps the upper half of a float32.
	KVBF16
	// KVInt8 keeps whole multiples of a scale, -127 to 127.
	KVInt8
	// KVFP8 keeps multiples of a scale as E4M3: sign, four bits of exponent, three of mantissa.
	KVFP8

	// KVTypes is how many types there are.
	KVTypes = iota
)

// kvLayouts say what each type is called, and the bytes of an element and of a
// scale. A scale is a bfloat16: it has the range of float32, and as elements are divided by
// what is kept of it, its precision costs them nothing.
var kvLayouts = [KVTypes]struct {
	name                     string
	elementBytes, scaleBytes int
}{{"f32", 4, 0}, {"bf16", 2, 0}, {"int8", 1, 2}, {"fp8", 1, 2}}

// KVTypeNames lists what [ParseKVType] takes.
func KVTypeNames() []string {
	names := make([]string, 0, KVTypes)
	for _, l := range kvLayouts {
		names = append(names, l.name)
	}
	return names
}

// ParseKVType returns the type of that name: f32, bf16, int8 or fp8.
func ParseKVType(name string) (KVType, error) {
	names := KVTypeNames()
	i := slices.Index(names, name)
	if i < 0 {
		return 0, fmt.Errorf("compute: no key/value type %q: use one of %s", name, strings.Join(names, ", "))
	}
	return KVType(i), nil
}

// Valid reports whether there is such a type.
func (t KVType) Valid() bool { return t < KVTypes }

// String returns the type's name.
func (t KVType) String() string {
	if !t.Valid() {
		return fmt.Sprintf("KVType(%d)", uint8(t))
	}
	return kvLayouts[t].name
}

// ElementBytes returns the bytes of one number.
func (t KVType) ElementBytes() int { return kvLayouts[t].elementBytes }

// ScaleBytes returns the bytes of the scale of one token's key or value in one
// head; 0 for types without.
func (t KVType) ScaleBytes() int { return kvLayouts[t].scaleBytes }

// A KVShape is the geometry of a key/value pool.
type KVShape struct {
	Layers, KVHeads, HeadDim int
	Blocks                   int
	// Type is how each number is kept; the zero value is float32.
	Type KVType
}

// PartBytes returns the bytes of the keys, or of the values, of one block in
// one layer and head, scales included.
func (s KVShape) PartBytes() int {
	return BlockTokens * (s.HeadDim*s.Type.ElementBytes() + s.Type.ScaleBytes())
}

// BlockBytes returns the bytes of one block across all layers, keys and
// values, scales included.
func (s KVShape) BlockBytes() int64 {
	return 2 * int64(s.Layers) * int64(s.KVHeads) * int64(s.PartBytes())
}

// Bytes returns the bytes of the whole pool.
func (s KVShape) Bytes() int64 { return s.BlockBytes() * int64(s.Blocks) }
