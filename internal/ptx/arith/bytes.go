package arith

import "encoding/binary"

var le = binary.LittleEndian

// Load reads size bytes and extends them to the register's width.
func Load(data []byte, size int, signed, wide bool) uint64 {
	var v uint64
	switch size {
	case 1:
		v = uint64(data[0])
		if signed {
			v = uint64(int64(int8(v)))
		}
	case 2:
		v = uint64(le.Uint16(data))
		if signed {
			v = uint64(int64(int16(v)))
		}
	case 4:
		v = uint64(le.Uint32(data))
		if signed && wide {
			v = uint64(int64(int32(v)))
		}
	default:
		v = le.Uint64(data)
	}
	return v
}

// Store writes the low size bytes of v.
func Store(data []byte, size int, v uint64) {
	switch size {
	case 1:
		data[0] = byte(v)
	case 2:
		le.PutUint16(data, uint16(v))
	case 4:
		le.PutUint32(data, uint32(v))
	default:
		le.PutUint64(data, v)
	}
}

// SignedByte reads the low byte as an integer of type t.
func SignedByte(v uint32, t Type) int32 {
	if t.Class == 'u' {
		return int32(v & 0xff)
	}
	return int32(int8(v))
}

// ElementValue returns how the low bits of a register become a float32.
func ElementValue(t Type) func(v uint32, _ Type) float32 {
	switch {
	case t.Class == 'h':
		return func(v uint32, _ Type) float32 { return F32(v << 16) }
	case t.Class == 'e':
		return func(v uint32, _ Type) float32 { return E4M3Values[v&0xff] }
	case t.Class == 'E':
		return func(v uint32, _ Type) float32 { return E5M2Values[v&0xff] }
	case t.Class == 't':
		return func(v uint32, _ Type) float32 { return F32(v &^ 0x1fff) }
	}
	return func(v uint32, _ Type) float32 { return F16To(v) }
}
