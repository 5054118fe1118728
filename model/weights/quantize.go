package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Quantize stores the elements of src as type t. The length of src must be a
// whole number of blocks, and dst must be exactly as long as they are. F32,
// F16, BF16 and Q8_0 give the same bytes as llama.cpp; so do the other types
// with blocks of 32. The K types search for scales that make the error small,
// in their own way.
func Quantize(dst []byte, t DType, src []float32) error {
	if err := checkRow(t, len(src), len(dst)); err != nil {
		return fmt.Errorf("quantize: %w", err)
	}
	switch t {
	case F32:
		for i, v := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case F16:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], ToF16(v))
		}
	case BF16:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], ToBF16(v))
		}
	default:
		pack := blockPackers[t]
		elements, size := t.BlockLen(), t.BlockBytes()
		for len(src) > 0 {
			pack(dst[:size], src[:elements])
			dst, src = dst[size:], src[elements:]
		}
	}
	return nil
}

var blockPackers = map[DType]func(block []byte, src []float32){
	Q8_0: packQ8_0,
	Q4_0: packQ4_0,
	Q4_1: packQ4_1,
	Q5_0: packQ5_0,
	Q5_1: packQ5_1,
	Q4_K: packQ4_K,
	Q5_K: packQ5_K,
	Q6_K: packQ6_K,
}

func putHalf(b []byte, f float32) { binary.LittleEndian.PutUint16(b, ToF16(f)) }

// reciprocal returns 1/d, and 0 for 0.
func reciprocal(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// widest returns the element with the largest magnitude.
func widest(src []float32) float32 {
	var best, magnitude float32
	for _, v := range src {
		if a := max(v, -v); a > magnitude {
			best, magnitude = v, a
		}
	}
	return best
}

// bounds returns the smallest and the largest element.
func bounds(src []float32) (lo, hi float32) {
	lo, hi = src[0], src[0]
	for _, v := range src[1:] {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// roundAway rounds to the nearest whole number, halves away from zero. The sum
// is taken in float64, where it is exact.
func roundAway(v float32) int {
	if v < 0 {
		return -int(0.5 - float64(v))
	}
	return int(float64(v) + 0.5)
}

func packQ8_0(block []byte, src []float32) {
	w := widest(src)
	d := max(w, -w) / 127
	inverse := reciprocal(d)
	putHalf(block, d)
	qs := block[2:34]
	for i, v := range src {
		qs[i] = byte(int8(roundAway(v * inverse)))
	}
}

// level places v on a grid of 0 to top by truncation, after the half step has
// been added.
func level(v float32, top int) byte { return byte(max(0, min(top, int(v)))) }

func packQ4_0(block []byte, src []float32) {
	d := widest(src) / -8
	inverse := reciprocal(d)
	putHalf(block, d)
	for i := range 16 {
		lo := level(float32(src[i]*inverse)+8.5, 15)
		hi := level(float32(src[i+16]*inverse)+8.5, 15)
		block[2+i] = lo | hi<<4
	}
}

func packQ4_1(block []byte, src []float32) {
	lowest, highest := bounds(src)
	d := (highest - lowest) / 15
	inverse := reciprocal(d)
	putHalf(block, d)
	putHalf(block[2:], lowest)
	for i := range 16 {
		lo := level(float32((src[i]-lowest)*inverse)+0.5, 15)
		hi := level(float32((src[i+16]-lowest)*inverse)+0.5, 15)
		block[4+i] = lo | hi<<4
	}
}

func packQ5_0(block []byte, src []float32) {
	d := widest(src) / -16
	inverse := reciprocal(d)
	putHalf(block, d)
	var high uint32
	for i := range 16 {
		lo := level(float32(src[i]*inverse)+16.5, 31)
		hi := level(float32(src[i+16]*inverse)+16.5, 31)
		block[6+i] = lo&15 | hi<<4
		high |= uint32(lo>>4)<<i | uint32(hi>>4)<<(i+16)
	}
	binary.LittleEndian.PutUint32(block[2:], high)
}

func packQ5_1(block []byte, src []float32) {
	lowest, highest := bounds(src)
	d := (highest - lowest) / 31
	inverse := reciprocal(d)
	putHalf(block, d)
	putHalf(block[2:], lowest)
	var high uint32
	for i := range 16 {
		lo := level(float32((src[i]-lowest)*inverse)+0.5, 31)
		hi := level(float32((src[i+16]-lowest)*inverse)+0.5, 31)
		block[8+i] = lo&15 | hi<<4
		high |= uint32(lo>>4)<<i | uint32(hi>>4)<<(i+16)
	}
	binary.LittleEndian.PutUint32(block[4:], high)
}
