package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Dequantize writes the elements stored in src into dst. The length of dst
// must be a whole number of blocks of type t, and src must be exactly as long
// as they are. Elements of type [F8E4M3] are worth nothing without their
// scales: [Tensor.ReadRow] and [Tensor.Float32s] read them.
func Dequantize(dst []float32, t DType, src []byte) error {
	if err := checkRow(t, len(dst), len(src)); err != nil {
		return err
	}
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = FromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		dequantizeBlocks(dst, t, src)
	}
	return nil
}

// checkRow reports why n elements of type t cannot be size bytes.
func checkRow(t DType, n, size int) error {
	if !t.Computable() {
		return fmt.Errorf("tensors of type %s are not supported: convert the model to one of %v", t, computableNames())
	}
	if t == F8E4M3 {
		return fmt.Errorf("elements of type %s cannot be converted without their scales", t)
	}
	if n%t.BlockLen() != 0 {
		return fmt.Errorf("%d elements are not a whole number of %s blocks of %d", n, t, t.BlockLen())
	}
	if want := t.RowBytes(n); want != size {
		return fmt.Errorf("%d elements of type %s are %d bytes, not %d", n, t, want, size)
	}
	return nil
}

func dequantizeBlocks(dst []float32, t DType, src []byte) {
	unpack := blockUnpackers[t]
	elements, size := t.BlockLen(), t.BlockBytes()
	for len(dst) > 0 {
		unpack(dst[:elements], src[:size])
		dst, src = dst[elements:], src[size:]
	}
}

var blockUnpackers = map[DType]func(dst []float32, block []byte){
	Q8_0: unpackQ8_0,
	Q4_0: unpackQ4_0,
	Q4_1: unpackQ4_1,
	Q5_0: unpackQ5_0,
	Q5_1: unpackQ5_1,
	Q4_K: unpackQ4_K,
	Q5_K: unpackQ5_K,
	Q6_K: unpackQ6_K,
}

func half(b []byte) float32 { return FromF16(binary.LittleEndian.Uint16(b)) }

// Q8_0: a half scale, then 32 signed bytes.
func unpackQ8_0(dst []float32, block []byte) {
	d := half(block)
	qs := block[2:34]
	dst = dst[:32]
	for i := range dst {
		dst[i] = float32(int8(qs[i])) * d
	}
}

// Q4_0: a half scale, then 16 bytes; the low nibbles are elements 0-15, the
// high ones 16-31, and 8 stands for zero.
func unpackQ4_0(dst []float32, block []byte) {
	d := half(block)
	qs := block[2:18]
	lo, hi := dst[:16], dst[16:32]
	for i, q := range qs {
		lo[i] = float32(int(q&15)-8) * d
		hi[i] = float32(int(q>>4)-8) * d
	}
}

// Q4_1: half scale and half minimum, then nibbles as in Q4_0 counted up from
// the minimum.
func unpackQ4_1(dst []float32, block []byte) {
	d, m := half(block), half(block[2:])
	qs := block[4:20]
	lo, hi := dst[:16], dst[16:32]
	for i, q := range qs {
		lo[i] = float32(float32(q&15)*d) + m
		hi[i] = float32(float32(q>>4)*d) + m
	}
}

// Q5_0: a half scale, 32 fifth bits, then nibbles as in Q4_0; 16 stands for
// zero.
func unpackQ5_0(dst []float32, block []byte) {
	d := half(block)
	high := binary.LittleEndian.Uint32(block[2:])
	qs := block[6:22]
	lo, hi := dst[:16], dst[16:32]
	for i, q := range qs {
		lo[i] = float32(int(uint32(q&15)|high>>i&1<<4)-16) * d
		hi[i] = float32(int(uint32(q>>4)|high>>(i+16)&1<<4)-16) * d
	}
}

// Q5_1: half scale and half minimum, 32 fifth bits, then nibbles.
func unpackQ5_1(dst []float32, block []byte) {
	d, m := half(block), half(block[2:])
	high := binary.LittleEndian.Uint32(block[4:])
	qs := block[8:24]
	lo, hi := dst[:16], dst[16:32]
	for i, q := range qs {
		lo[i] = float32(float32(uint32(q&15)|high>>i&1<<4)*d) + m
		hi[i] = float32(float32(uint32(q>>4)|high>>(i+16)&1<<4)*d) + m
	}
}

// ScaleAndMin unpacks pair j of the eight 6-bit scales and eight 6-bit minima
// that a Q4_K or Q5_K block packs into 12 bytes: the first four pairs lie
// plainly in the low six bits, the others are cut in 4 and 2 bits.
func ScaleAndMin(j int, packed []byte) (scale, minimum uint8) {
	if j < 4 {
		return packed[j] & 63, packed[j+4] & 63
	}
	scale = packed[j+4]&15 | packed[j-4]>>6<<4
	minimum = packed[j+4]>>4 | packed[j]>>6<<4
	return scale, minimum
}

// Q4_K: half scale of scales, half scale of minima, 12 bytes of scales and
// minima, then 4 groups of 32 bytes whose low and high nibbles are two runs of
// 32 elements.
func unpackQ4_K(dst []float32, block []byte) {
	d, dmin := half(block), half(block[2:])
	scales, qs := block[4:16], block[16:144]
	for g := range 4 {
		sc1, m1 := ScaleAndMin(2*g, scales)
		sc2, m2 := ScaleAndMin(2*g+1, scales)
		d1, d2 := d*float32(sc1), d*float32(sc2)
		min1, min2 := dmin*float32(m1), dmin*float32(m2)
		lo, hi := dst[64*g:64*g+32], dst[64*g+32:64*g+64]
		for i, q := range qs[32*g : 32*g+32] {
			lo[i] = float32(d1*float32(q&15)) - min1
			hi[i] = float32(d2*float32(q>>4)) - min2
		}
	}
}

// Q5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles; bit 2g of
// byte i belongs to the low nibble i of group g, bit 2g+1 to the high one.
func unpackQ5_K(dst []float32, block []byte) {
	d, dmin := half(block), half(block[2:])
	scales, high, qs := block[4:16], block[16:48], block[48:176]
	for g := range 4 {
		sc1, m1 := ScaleAndMin(2*g, scales)
		sc2, m2 := ScaleAndMin(2*g+1, scales)
		d1, d2 := d*float32(sc1), d*float32(sc2)
		min1, min2 := dmin*float32(m1), dmin*float32(m2)
		lo, hi := dst[64*g:64*g+32], dst[64*g+32:64*g+64]
		for i, q := range qs[32*g : 32*g+32] {
			h := high[i] >> (2 * g)
			lo[i] = float32(d1*float32(q&15|h&1<<4)) - min1
			hi[i] = float32(d2*float32(q>>4|h>>1&1<<4)) - min2
		}
	}
}

// Q6_K: 128 bytes of low nibbles, 64 bytes of upper bit pairs, 16 signed
// scales (one for 16 elements), and at the end the half scale of the scales;
// 32 stands for zero.
func unpackQ6_K(dst []float32, block []byte) {
	low, high, scales := block[:128], block[128:192], block[192:208]
	d := half(block[208:])
	for h := range 2 {
		ql, qh, sc, out := low[64*h:64*h+64], high[32*h:32*h+32], scales[8*h:8*h+8], dst[128*h:128*h+128]
		for i := range 32 {
			s := i / 16
			bits := qh[i]
			out[i] = d * float32(int8(sc[s])) * float32(int(ql[i]&15|bits&3<<4)-32)
			out[i+32] = d * float32(int8(sc[s+2])) * float32(int(ql[i+32]&15|bits>>2&3<<4)-32)
			out[i+64] = d * float32(int8(sc[s+4])) * float32(int(ql[i]>>4|bits>>4&3<<4)-32)
			out[i+96] = d * float32(int8(sc[s+6])) * float32(int(ql[i+32]>>4|bits>>6&3<<4)-32)
		}
	}
}
