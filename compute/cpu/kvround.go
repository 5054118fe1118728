package cpu

import (
	"math"

	"parley/compute"
	"parley/model/weights"
)

// This file is the one definition of what becomes of keys and values that are
// stored in less than float32. The reference stores and reads with it, and the
// fast backend's kernels give the same codes.

// The greatest magnitudes of the eight-bit types.
const int8Max, fp8Max = 127, 448

// scaleMin is the magnitude below which all of a token's numbers count as zero,
// so that the inverse of no scale overflows.
const scaleMin = 1e-30

// kvScale returns the scale of the numbers of one token and head, as it is
// kept, and the factor that turns the numbers into codes. The scale is rounded
// up, so that the greatest number does not exceed the greatest code. It is not
// a number if one of them is not.
func kvScale(kind compute.KVType, x []float32) (scale uint16, inverse float32) {
	var bits uint32 // of positive numbers, which are in the order of the numbers
	for _, v := range x {
		bits = max(bits, math.Float32bits(v)&^(1<<31))
	}
	top := math.Float32frombits(bits)
	if top < scaleMin {
		return 0, 0
	}
	exact := top / int8Max
	if kind == compute.KVFP8 {
		exact = top / fp8Max
	}
	scale = weights.ToBF16(exact)
	if weights.FromBF16(scale) < exact {
		scale++
	}
	return scale, 1 / weights.FromBF16(scale)
}

// roundingShift is what, added to a small number, leaves no bits for its
// fraction: the sum's low bits are the number rounded to even.
const roundingShift = 3 << 22

// toInt8 rounds a number of at most 127 to the nearest integer, of two to the even one.
func toInt8(v float32) byte { return byte(math.Float32bits(v + roundingShift)) }

// widen sets dst to the numbers or codes of src, as many as dst has.
func widen(kind compute.KVType, dst []float32, src []byte) {
	switch kind {
	case compute.KVF32:
		copy(dst, view[float32](src))
	case compute.KVBF16:
		for i, v := range view[uint16](src)[:len(dst)] {
			dst[i] = weights.FromBF16(v)
		}
	case compute.KVInt8:
		for i, v := range src[:len(dst)] {
			dst[i] = float32(int8(v))
		}
	case compute.KVFP8:
		for i, v := range src[:len(dst)] {
			dst[i] = weights.FromE4M3(v)
		}
	}
}

// readKV sets dst to what is kept of one token in a part [token][dim] of a block, scale included.
func readKV(kind compute.KVType, dst []float32, part []byte, token int) {
	widen(kind, dst, part[token*len(dst)*kind.ElementBytes():])
	if kind.ScaleBytes() == 0 {
		return
	}
	scale := weights.FromBF16(view[uint16](part[len(dst)*compute.BlockTokens*kind.ElementBytes():])[token])
	for i := range dst {
		dst[i] *= scale
	}
}

// narrow keeps the numbers of one token and head in a part of a block: number
// i as element first + i·stride, and the scale, if the type has one, as that of the token.
func narrow(kind compute.KVType, part []byte, token, first, stride int, x []float32) {
	switch kind {
	case compute.KVF32:
		narrowF32(view[float32](part)[first:], stride, x)
	case compute.KVBF16:
		narrowBF16(view[uint16](part)[first:], stride, x)
	case compute.KVInt8:
		view[uint16](part[len(x)*lanes:])[token] = narrowInt8(part[first:], stride, x)
	case compute.KVFP8:
		view[uint16](part[len(x)*lanes:])[token] = narrowFP8(part[first:], stride, x)
	}
}

func narrowF32(dst []float32, stride int, x []float32) {
	if stride == 1 {
		copy(dst, x)
		return
	}
	for i, v := range x {
		dst[i*stride] = v
	}
}

func narrowBF16(dst []uint16, stride int, x []float32) {
	for i, v := range x {
		dst[i*stride] = weights.ToBF16(v)
	}
}

func narrowInt8(dst []byte, stride int, x []float32) uint16 {
	scale, inverse := kvScale(compute.KVInt8, x)
	for i, v := range x {
		dst[i*stride] = toInt8(float32(v * inverse))
	}
	return scale
}

func narrowFP8(dst []byte, stride int, x []float32) uint16 {
	scale, inverse := kvScale(compute.KVFP8, x)
	for i, v := range x {
		dst[i*stride] = weights.ToE4M3(float32(v * inverse))
	}
	return scale
}
