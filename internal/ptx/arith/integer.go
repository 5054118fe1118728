package arith

import "math/bits"

// Extend reads the low bits of v as a value of type t.
func Extend(v uint64, t Type) uint64 {
	if t.Bits >= 64 {
		return v
	}
	if t.Class == 's' {
		return uint64(int64(v<<(64-t.Bits)) >> (64 - t.Bits))
	}
	return v & (1<<t.Bits - 1)
}

// BinaryInt are two-operand integer instructions on values extended by their
// type; results are cut to the destination's width.
func BinaryInt(name string, t Type) func(a, b uint64) uint64 {
	s := t.Signed()
	width := uint64(t.Bits)
	switch name {
	case "add":
		return func(a, b uint64) uint64 { return a + b }
	case "sub":
		return func(a, b uint64) uint64 { return a - b }
	case "mul":
		return func(a, b uint64) uint64 { return a * b }
	case "and":
		return func(a, b uint64) uint64 { return a & b }
	case "or":
		return func(a, b uint64) uint64 { return a | b }
	case "xor":
		return func(a, b uint64) uint64 { return a ^ b }
	case "shl":
		return func(a, b uint64) uint64 { return a << min(b, width) }
	case "shr":
		if s {
			return func(a, b uint64) uint64 { return uint64(int64(a) >> min(b, width)) }
		}
		return func(a, b uint64) uint64 { return a >> min(b, width) }
	case "min":
		return func(a, b uint64) uint64 { return Pick(lessThan(a, b, s), a, b) }
	case "max":
		return func(a, b uint64) uint64 { return Pick(lessThan(a, b, s), b, a) }
	case "div":
		return func(a, b uint64) uint64 { return quotient(a, b, s) }
	case "rem":
		return func(a, b uint64) uint64 { return remainder(a, b, s) }
	}
	return nil
}

// Pick returns a or b.
func Pick(first bool, a, b uint64) uint64 {
	if first {
		return a
	}
	return b
}

func lessThan(a, b uint64, signed bool) bool {
	if signed {
		return int64(a) < int64(b)
	}
	return a < b
}

// quotient is what hardware computes; division by zero has no result that a
// program may rely on, and gives all ones here.
func quotient(a, b uint64, signed bool) uint64 {
	switch {
	case b == 0:
		return ^uint64(0)
	case signed && b == ^uint64(0):
		return -a
	case signed:
		return uint64(int64(a) / int64(b))
	}
	return a / b
}

func remainder(a, b uint64, signed bool) uint64 {
	switch {
	case b == 0:
		return a
	case signed && b == ^uint64(0):
		return 0
	case signed:
		return uint64(int64(a) % int64(b))
	}
	return a % b
}

// UnsignedOf returns the unsigned type of the same width.
func UnsignedOf(t Type) Type { return Type{'u', t.Bits, 1} }

// HighProduct returns the upper half of a product.
func HighProduct(x, y uint64, t Type) uint64 {
	x, y = Extend(x, t), Extend(y, t)
	if t.Bits < 64 {
		return Extend(x*y>>t.Bits, UnsignedOf(t))
	}
	hi, _ := bits.Mul64(x, y)
	if t.Signed() {
		hi -= x>>63*y + y>>63*x
	}
	return hi
}

// UnaryInt returns a one-operand integer instruction on a value, or nil.
func UnaryInt(name string, t Type) func(uint64) uint64 {
	switch name {
	case "not":
		return func(x uint64) uint64 { return ^x }
	case "neg":
		return func(x uint64) uint64 { return -x }
	case "abs":
		return func(x uint64) uint64 { return uint64(max(int64(x), -int64(x))) }
	case "popc":
		return func(x uint64) uint64 { return uint64(bits.OnesCount64(x)) }
	case "clz":
		return func(x uint64) uint64 { return uint64(bits.LeadingZeros64(x) - 64 + t.Bits) }
	case "brev":
		return func(x uint64) uint64 { return bits.Reverse64(x) >> (64 - t.Bits) }
	case "cnot":
		return func(x uint64) uint64 { return Pick(x == 0, 1, 0) }
	}
	return nil
}

// Lop3 applies a truth table of three bits to each bit.
func Lop3(a, b, c uint32, table uint64) (out uint32) {
	for i := range 8 {
		if table>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^a
		}
		if i&2 == 0 {
			y = ^b
		}
		if i&1 == 0 {
			z = ^c
		}
		out |= x & y & z
	}
	return out
}

// BitField extracts n bits from bit at, as bfe does.
func BitField(x, at, n uint64, t Type) uint64 {
	at, n = at&0xff, n&0xff
	x = Extend(x, t)
	if n == 0 {
		return 0
	}
	width := uint64(t.Bits)
	if t.Signed() {
		top := min(at+n, width)
		if at >= width { // only copies of the sign are left
			return Extend(uint64(int64(x)>>63), UnsignedOf(t))
		}
		return Extend(uint64(int64(x<<(64-top))>>(64-top+at)), UnsignedOf(t))
	}
	if at >= width {
		return 0
	}
	x >>= at
	if n < 64 {
		x &= 1<<n - 1
	}
	return x
}

// Permute picks four bytes of a and b, as prmt does.
func Permute(a, b, selector uint32) (out uint32) {
	all := uint64(b)<<32 | uint64(a)
	for i := range 4 {
		pick := selector >> (4 * i) & 15
		v := uint32(all>>(8*(pick&7))) & 0xff
		if pick&8 != 0 {
			v = uint32(int32(int8(v))>>7) & 0xff
		}
		out |= v << (8 * i)
	}
	return out
}
