package weights

import (
	"math"

	"parley/model/f8"
)

// FromF16 converts an IEEE 754 half-precision number, given by its bits.
// The conversion is exact.
func FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	default:
		const smallest = 1.0 / (1 << 24)
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*smallest))
	}
}

// ToF16 returns the bits of the half-precision number nearest to f, with ties
// to even. Numbers too large for a half become infinite.
func ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000:
		return sign | 0x7c00
	case abs < 0x38800000:
		// A subnormal half is a multiple of 2^-24, and adding 0.5 makes the
		// float adder round to exactly that grid.
		rounded := math.Float32frombits(abs) + 0.5
		return sign | uint16(math.Float32bits(rounded)-math.Float32bits(0.5))
	}
	abs += 0xfff + (abs >> 13 & 1)
	return sign | uint16((abs-0x38000000)>>13)
}

// FromBF16 converts a bfloat16 number, given by its bits. The conversion is
// exact.
func FromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// ToBF16 returns the bits of the bfloat16 number nearest to f, with ties to
// even.
func ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + (bits >> 16 & 1)) >> 16)
}

// FromE4M3 returns the number that an E4M3 code stands for. The conversion is
// exact.
func FromE4M3(code byte) float32 { return f8.From(code) }

// ToE4M3 returns the code of the E4M3 number nearest to v, with ties to even.
// Numbers beyond the greatest, 448, become that.
func ToE4M3(v float32) byte { return f8.To(v) }

func sqrt32(v float32) float32 { return float32(math.Sqrt(float64(v))) }
