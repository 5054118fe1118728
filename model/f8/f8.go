// Package f8 holds what eight-bit floating-point weights are made of: E4M3 codes,
// rounding to them, the scales beside them, and the ways in which published models
// store both.
//
// E4M3 has a sign, four bits of exponent and three of mantissa. It has no
// infinities, and its greatest number is 448. A matrix of such codes has one scale
// for each row and each group of columns that begins; an element is the product
// of its code and the scale of its group.
package f8

import (
	"encoding/binary"
	"math"
	"sync"
)

// Group is how many columns of a row share one scale.
const Group = 128

// greatest is the greatest number of E4M3.
const greatest = 448

// scaleMin bounds scales from below, so that the inverse of each is finite.
const scaleMin = 0x1p-126

// Groups returns how many scales a row of cols elements has.
func Groups(cols int) int { return (cols + Group - 1) / Group }

// values are the numbers that the codes stand for.
var values = decode()

func decode() (values [256]float32) {
	for code := range values {
		exponent, mantissa := code>>3&15, float64(code&7)
		v := math.Ldexp(mantissa, 1-7-3)
		if exponent > 0 {
			v = math.Ldexp(8+mantissa, exponent-7-3)
		}
		if code&0x7f == 0x7f {
			v = math.NaN()
		}
		values[code] = float32(math.Copysign(v, float64(1-2*(code>>7))))
	}
	return values
}

// From returns the number that a code stands for. The conversion is exact.
func From(code byte) float32 { return values[code] }

// To returns the code of the number nearest to v, with ties to even. Numbers
// beyond the greatest become that, and so do infinities and NaN.
func To(v float32) byte {
	const (
		leastNormal    = 1.0 / 64
		perSubnormal   = 512     // one over the least number
		roundingShift  = 3 << 22 // a sum with it has no bits for a fraction
		exponentOffset = (127 - 7) << 3
		greatestCode   = 0x7e
	)
	bits := math.Float32bits(v)
	sign, magnitude := byte(bits>>31)<<7, bits&^(1<<31)
	if size := math.Float32frombits(magnitude); size < leastNormal {
		return sign | byte(math.Float32bits(float32(size*perSubnormal)+roundingShift))
	}
	rounded := (magnitude+0x7ffff+magnitude>>20&1)>>20 - exponentOffset
	return sign | byte(min(rounded, greatestCode))
}

// codes has the code of each number by the upper half of its bits, of which
// the lowest also says whether the lower half has a bit set: E4M3 keeps so few
// bits that no more is needed to round to the nearest.
var codes = sync.OnceValue(func() *[1 << 16]byte {
	codes := new([1 << 16]byte)
	for upper := range codes {
		codes[upper] = To(math.Float32frombits(uint32(upper) << 16))
	}
	return codes
})

// quick is To by the table.
func quick(table *[1 << 16]byte, v float32) byte {
	bits := math.Float32bits(v)
	return table[uint16(bits>>16|(bits&0xffff+0xffff)>>16)]
}

// Read sets dst to the elements of a row.
func Read(dst []float32, row []byte, scales []float32) {
	for g, scale := range scales {
		to := min((g+1)*Group, len(dst))
		for i := g * Group; i < to; i++ {
			dst[i] = values[row[i]] * scale
		}
	}
}

// Round sets a row and its scales to the codes of src. The scale of a group is
// the greatest magnitude in it divided by 448, so that no element is too large;
// elements are multiplied by its inverse and rounded. It returns the first group
// with a number that is infinite or NaN, -1 if there is none.
func Round(row []byte, scales []float32, src []float32) (bad int) {
	table := codes()
	for g := range scales {
		from, to := g*Group, min((g+1)*Group, len(row))
		part, out := src[from:to], row[from:to]
		var top uint32 // bits of positive numbers are in the order of the numbers
		for _, v := range part {
			top = max(top, math.Float32bits(v)&^(1<<31))
		}
		scale, inverse, ok := scaleOf(math.Float32frombits(top))
		if !ok {
			return g
		}
		scales[g] = scale
		for i, v := range part {
			out[i] = quick(table, v*inverse)
		}
	}
	return -1
}

// RoundBF16 is Round for the bytes of BF16 numbers. Whole models go through it
// when they are loaded, so it works on whole groups, four numbers at a time.
func RoundBF16(row []byte, scales []float32, src []byte) (bad int) {
	table := codes()
	for g := range scales {
		from, to := g*Group, min((g+1)*Group, len(row))
		ok := false
		if to-from == Group {
			scales[g], ok = roundGroup(table, (*[Group]byte)(row[from:]), (*[2 * Group]byte)(src[2*from:]))
		} else {
			var in [2 * Group]byte
			var out [Group]byte
			copy(in[:], src[2*from:2*to])
			scales[g], ok = roundGroup(table, &out, &in)
			copy(row[from:to], out[:])
		}
		if !ok {
			return g
		}
	}
	return -1
}

func roundGroup(table *[1 << 16]byte, out *[Group]byte, in *[2 * Group]byte) (scale float32, ok bool) {
	const signs = 0x8000_8000_8000_8000
	var tops uint64 // of each fourth number
	for i := 0; i < len(in); i += 8 {
		next := binary.LittleEndian.Uint64(in[i:i+8]) &^ signs
		not := (tops | signs) - next // has the sign bit set where tops is not less
		not &= signs
		not |= not - not>>15
		tops = tops&not | next&^not
	}
	top := uint32(max(tops&0xffff, tops>>16&0xffff, tops>>32&0xffff, tops>>48))
	scale, inverse, ok := scaleOf(math.Float32frombits(top << 16))
	for i := 0; i < len(out); i += 4 {
		four := binary.LittleEndian.Uint64(in[2*i : 2*i+8])
		to := (*[4]byte)(out[i : i+4])
		to[0] = quick(table, math.Float32frombits(uint32(four)<<16)*inverse)
		to[1] = quick(table, math.Float32frombits(uint32(four)&0xffff0000)*inverse)
		to[2] = quick(table, math.Float32frombits(uint32(four>>16)&0xffff0000)*inverse)
		to[3] = quick(table, math.Float32frombits(uint32(four>>32)&0xffff0000)*inverse)
	}
	return scale, ok
}

// scaleOf returns the scale of numbers of at most the given magnitude, and the
// factor that turns them into codes. It is not ok if the magnitude is infinite
// or NaN.
func scaleOf(top float32) (scale, inverse float32, ok bool) {
	if top == 0 {
		return 0, 0, true
	}
	scale = max(top/greatest, scaleMin)
	return scale, 1 / scale, top <= math.MaxFloat32
}
