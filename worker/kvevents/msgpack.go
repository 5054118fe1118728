package kvevents

import (
	"encoding/binary"
	"errors"
	"math"
)

// MessagePack by hand: events are unions of arrays and maps that no struct of a
// library describes, and what is needed of the format are these few types.

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// appendMap begins a map of fewer than 16 entries.
func appendMap(b []byte, n int) []byte { return append(b, 0x80|byte(n)) }

// appendString appends a text of fewer than 256 bytes.
func appendString(b []byte, s string) []byte {
	if len(s) < 32 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = append(b, 0xd9, byte(len(s)))
	}
	return append(b, s...)
}

// appendBytes appends fewer than 256 bytes.
func appendBytes(b, data []byte) []byte { return append(append(b, 0xc4, byte(len(data))), data...) }

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 128:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, 0xcc, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

var (
	errMsgpack = errors.New("not MessagePack")
	errShape   = errors.New("MessagePack of an unexpected shape")
)

// A sort is what kind of value comes next.
type sort uint8

const (
	sortNil sort = iota
	sortBool
	sortInt // number holds it, as two's complement
	sortFloat
	sortText
	sortBytes
	sortArray // n elements follow
	sortMap   // n pairs follow
	sortOther
)

// A value is one value, or the beginning of an array or a map.
type value struct {
	sort   sort
	number uint64
	data   []byte // of texts and bytes, in the message
	n      int
}

// An unpacker reads values one after the other.
type unpacker struct{ rest []byte }

// cut takes n bytes.
func (u *unpacker) cut(n uint64) ([]byte, error) {
	if n > uint64(len(u.rest)) {
		return nil, errMsgpack
	}
	out := u.rest[:n]
	u.rest = u.rest[n:]
	return out, nil
}

// unsigned takes a number of the given count of bytes.
func (u *unpacker) unsigned(bytes uint64) (v uint64, err error) {
	raw, err := u.cut(bytes)
	for _, b := range raw {
		v = v<<8 | uint64(b)
	}
	return v, err
}

// next reads a value. Arrays and maps cannot have more elements than there are
// bytes left.
func (u *unpacker) next() (value, error) {
	head, err := u.cut(1)
	if err != nil {
		return value{}, err
	}
	b := head[0]
	switch {
	case b < 0x80:
		return value{sort: sortInt, number: uint64(b)}, nil
	case b < 0x90:
		return u.many(sortMap, uint64(b&15))
	case b < 0xa0:
		return u.many(sortArray, uint64(b&15))
	case b < 0xc0:
		return u.bytes(sortText, uint64(b&31))
	case b >= 0xe0:
		return value{sort: sortInt, number: uint64(int64(int8(b)))}, nil
	}
	return u.long(b)
}

// id reads a number as the ids of tokens mostly are, and reports whether there is
// one. Most of what engines publish is ids; what it leaves is read by next.
func (u *unpacker) id() (v uint32, ok bool) {
	b := u.rest
	switch {
	case len(b) > 0 && b[0] < 0x80:
		u.rest = b[1:]
		return uint32(b[0]), true
	case len(b) > 2 && b[0] == 0xcd:
		u.rest = b[3:]
		return uint32(b[1])<<8 | uint32(b[2]), true
	case len(b) > 4 && b[0] == 0xce && b[1] < 0x80:
		u.rest = b[5:]
		return binary.BigEndian.Uint32(b[1:]), true
	}
	return 0, false
}

// long reads a value whose first byte is only its type.
func (u *unpacker) long(b byte) (value, error) {
	switch b {
	case 0xc0:
		return value{sort: sortNil}, nil
	case 0xc2, 0xc3:
		return value{sort: sortBool, number: uint64(b & 1)}, nil
	case 0xc4, 0xc5, 0xc6:
		return u.sized(sortBytes, 1<<(b-0xc4))
	case 0xc7, 0xc8, 0xc9: // an extension: a type and bytes
		return u.extension(1 << (b - 0xc7))
	case 0xca, 0xcb:
		v, err := u.unsigned(4 << (b - 0xca))
		return value{sort: sortFloat, number: v}, err
	case 0xcc, 0xcd, 0xce, 0xcf:
		v, err := u.unsigned(1 << (b - 0xcc))
		return value{sort: sortInt, number: v}, err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := uint64(1) << (b - 0xd0)
		v, err := u.unsigned(size)
		shift := 64 - 8*size
		return value{sort: sortInt, number: uint64(int64(v<<shift) >> shift)}, err
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return u.bytes(sortOther, 1+1<<(b-0xd4))
	case 0xd9, 0xda, 0xdb:
		return u.sized(sortText, 1<<(b-0xd9))
	case 0xdc, 0xdd:
		return u.counted(sortArray, 2<<(b-0xdc))
	case 0xde, 0xdf:
		return u.counted(sortMap, 2<<(b-0xde))
	}
	return value{}, errMsgpack
}

func (u *unpacker) bytes(s sort, n uint64) (value, error) {
	data, err := u.cut(n)
	return value{sort: s, data: data}, err
}

func (u *unpacker) sized(s sort, length uint64) (value, error) {
	n, err := u.unsigned(length)
	if err != nil {
		return value{}, err
	}
	return u.bytes(s, n)
}

func (u *unpacker) extension(length uint64) (value, error) {
	n, err := u.unsigned(length)
	if err != nil {
		return value{}, err
	}
	return u.bytes(sortOther, n+1)
}

func (u *unpacker) counted(s sort, length uint64) (value, error) {
	n, err := u.unsigned(length)
	if err != nil {
		return value{}, err
	}
	return u.many(s, n)
}

func (u *unpacker) many(s sort, n uint64) (value, error) {
	least := n
	if s == sortMap {
		least = 2 * n
	}
	if least > uint64(len(u.rest)) {
		return value{}, errMsgpack
	}
	return value{sort: s, n: int(n)}, nil
}

// depthMax bounds how deeply what is skipped may be nested.
const depthMax = 32

// skip passes over a whole value.
func (u *unpacker) skip() error { return u.skipAt(0) }

func (u *unpacker) skipAt(depth int) error {
	v, err := u.next()
	if err != nil {
		return err
	}
	return u.skipRest(v, depth)
}

// skipRest passes over what follows the beginning of a value.
func (u *unpacker) skipRest(v value, depth int) error {
	n := 0
	switch v.sort {
	case sortArray:
		n = v.n
	case sortMap:
		n = 2 * v.n
	}
	if n > 0 && depth == depthMax {
		return errShape
	}
	for range n {
		if err := u.skipAt(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// array reads the beginning of one and returns its length.
func (u *unpacker) array() (int, error) {
	v, err := u.next()
	if err == nil && v.sort != sortArray {
		err = errShape
	}
	return v.n, err
}
