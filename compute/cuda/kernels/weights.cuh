// How matrices lie in device memory.
//
// A matrix is cut into strips of 16 rows, and a strip into records of REC
// columns. A record holds everything about its 16 rows: first the numbers or
// codes in the order in which the lanes of a warp give them to the tensor
// cores, then the scales. So a strip is one contiguous stream, whatever the
// type, and takes as many bytes as the stored blocks.
//
//   16-bit  REC 64: for each 8 rows, 8 columns of all 8 rows at a time, 128 bytes;
//           the records of four strips lie side by side, so 64 rows are one stream
//   F8      REC 128: E4M3 codes, two in the place of a 16-bit number, and behind the records of four
//           strips their 64 scales
//   Q8_0    REC 64: two tiles of 32 columns, 16 bytes a lane; 2x16 halves d
//   Q4_0/1  REC 64: nibbles, 16 bytes a lane; 2x16 halves d, or pairs d, m
//   Q5_0/1  the same, with 4 bytes a lane of fifth bits behind the nibbles
//   Q4_K    REC 256: four times nibbles of 64 columns; then 16 rows' 16 bytes of d, dmin, scales
//   Q5_K    the same, with four times fifth bits behind the nibbles
//   Q6_K    REC 256: nibbles, four times 8 bytes a lane of upper bit pairs, 16x16 scales, 16 halves d
//
// 16-bit numbers lie as both ldmatrix and wgmma take them. Of codes, lane l has
// those of row l/4 and row l/4+8: in a tile of 32, its words are columns 4t..4t+3
// of the two rows, then 16+4t.., with t = l%4. Nibbles have the codes of columns
// 4t.. low and of 16+4t.. high.
#pragma once
#include "common.cuh"

#define STRIP 16
#define BLOCK_COLS 64

template <int TYPE> FORCE void multiply16(float *c, quad a, u32 b0, u32 b1) {
	if (TYPE == BF16) multiply_brain(c, a, b0, b1);
	else multiply_half(c, a, b0, b1);
}

// Where a record of 16-bit numbers lies: strips in groups of four.
#define GROUP_ROWS 64
#define GROUP_BYTES 8192
FORCE u64 record16_at(int strip, int records, int k) {
	return ((u64)(strip / 4) * records + k) * GROUP_BYTES + strip % 4 * 2048;
}

// A record of E4M3 codes is one of 64 rows, with a scale for each.
#define EIGHT_SCALES 8192
#define EIGHT_BYTES (EIGHT_SCALES + GROUP_ROWS * 4)
FORCE float from_fp8(u32 code) { // as a half number, the bits stand for 2^8 times less
	return from_half((u16)((code & 0x80) << 8 | (code & 0x7f) << 7)) * 256.0f;
}

template <int TYPE> struct Layout;
template <> struct Layout<F16> { enum { rec = 64, bytes = 2048 }; };
template <> struct Layout<BF16> { enum { rec = 64, bytes = 2048 }; };
template <> struct Layout<F8> { enum { rec = 128 }; };
template <> struct Layout<Q8_0> { enum { rec = 64, bytes = 1088, nibbles = 0, high = 0, scales = 1024, stored = 34, len = 32 }; };
template <> struct Layout<Q4_0> { enum { rec = 64, bytes = 576, nibbles = 1, high = 0, scales = 512, stored = 18, len = 32 }; };
template <> struct Layout<Q4_1> { enum { rec = 64, bytes = 640, nibbles = 1, high = 0, scales = 512, stored = 20, len = 32 }; };
template <> struct Layout<Q5_0> { enum { rec = 64, bytes = 704, nibbles = 1, high = 1, scales = 640, stored = 22, len = 32 }; };
template <> struct Layout<Q5_1> { enum { rec = 64, bytes = 768, nibbles = 1, high = 1, scales = 640, stored = 24, len = 32 }; };
template <> struct Layout<Q4_K> { enum { rec = 256, bytes = 2304, nibbles = 1, high = 0, scales = 2048, stored = 144, len = 256 }; };
template <> struct Layout<Q5_K> { enum { rec = 256, bytes = 2816, nibbles = 1, high = 1, scales = 2560, stored = 176, len = 256 }; };
template <> struct Layout<Q6_K> { enum { rec = 256, bytes = 3360, nibbles = 1, high = 2, scales = 3072, stored = 210, len = 256 }; };

// The scale and minimum of group j of a Q4_K or Q5_K header: 6 bits each, in 12 bytes.
FORCE void scale_and_min(const u8 *packed, int j, int *scale, int *minimum) {
	if (j < 4) {
		*scale = packed[j] & 63;
		*minimum = packed[j + 4] & 63;
		return;
	}
	*scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6 << 4);
	*minimum = (packed[j + 4] >> 4) | (packed[j] >> 6 << 4);
}

// A Scale is what a group of codes is multiplied with, and what is added then.
struct Scale { float d, m; };

// scale_of reads the scale of group j (of 32 columns; of 16 in Q6_K) of a row from a record.
template <int TYPE> FORCE Scale scale_of(const u8 *record, int row, int j) {
	const u8 *s = record + Layout<TYPE>::scales;
	Scale r = {0, 0};
	if (TYPE == Q8_0 || TYPE == Q4_0 || TYPE == Q5_0) {
		r.d = from_half(((const u16 *)s)[j * STRIP + row]);
	} else if (TYPE == Q4_1 || TYPE == Q5_1) {
		u32 both = ((const u32 *)s)[j * STRIP + row];
		r.d = from_half((u16)both);
		r.m = from_half((u16)(both >> 16));
	} else if (TYPE == Q6_K) {
		r.d = from_half(((const u16 *)(s + 256))[row]) * (float)(s8)s[row * 16 + j];
	} else {
		int scale, minimum;
		scale_and_min(s + row * 16 + 4, j, &scale, &minimum);
		u32 both = ((const u32 *)(s + row * 16))[0];
		r.d = from_half((u16)both) * (float)scale;
		r.m = -(from_half((u16)(both >> 16)) * (float)minimum);
	}
	return r;
}

// What stands for zero.
template <int TYPE> FORCE constexpr int zero_of() {
	return TYPE == Q4_0 ? 8 : TYPE == Q5_0 ? 16 : TYPE == Q6_K ? 32 : 0;
}

// code_of reads one code from a record, zero already taken off.
template <int TYPE> FORCE int code_of(const u8 *record, int row, int col) {
	typedef Layout<TYPE> L;
	int half = row / 8, c = col % 32, lane = row % 8 * 4 + c % 16 / 4;
	if (!L::nibbles) return (s8)record[col / 32 * 512 + lane * 16 + c / 16 * 8 + half * 4 + c % 4];
	int sub = col / 64, word = col % 64 / 32 * 2 + half, at = c / 16 * 4 + c % 4;
	int code = record[sub * 512 + lane * 16 + word * 4 + c % 4] >> (c / 16 * 4) & 15;
	const u8 *high = record + L::rec / 64 * 512;
	if (L::high == 1) code |= (high[sub * 128 + lane * 4 + word] >> at & 1) << 4;
	if (L::high == 2) code |= (((const u16 *)(high + sub * 256 + lane * 8))[word] >> (2 * at) & 3) << 4;
	return code - zero_of<TYPE>();
}

// element reads one number of a matrix, dequantized as the formats define it.
template <int TYPE> FORCE float element_of(const u8 *w, int cols, int row, int col) {
	typedef Layout<TYPE> L;
	const int records = ROUND_UP(cols, L::rec) / L::rec;
	if constexpr (TYPE == F16 || TYPE == BF16) {
		const u8 *record = w + record16_at(row / STRIP, records, col / L::rec);
		row %= STRIP;
		col %= L::rec;
		u16 h = ((const u16 *)(record + row / 8 * 1024 + col / 8 * 128 + row % 8 * 16))[col % 8];
		return TYPE == F16 ? from_half(h) : from_brain(h);
	} else if constexpr (TYPE == F8) {
		const u8 *record = w + ((u64)(row / GROUP_ROWS) * records + col / L::rec) * EIGHT_BYTES;
		row %= GROUP_ROWS;
		col %= L::rec;
		u32 code = record[row / 8 * 1024 + col / 16 * 128 + row % 8 * 16 + col % 16];
		return from_fp8(code) * ((const float *)(record + EIGHT_SCALES))[row];
	} else {
		const u8 *record = w + ((u64)(row / STRIP) * records + col / L::rec) * L::bytes;
		row %= STRIP;
		col %= L::rec;
		int code = code_of<TYPE>(record, row, col);
		Scale s = scale_of<TYPE>(record, row, col / (TYPE == Q6_K ? 16 : 32));
		float v = (float)code * s.d;
		return TYPE == Q4_1 || TYPE == Q5_1 || TYPE == Q4_K || TYPE == Q5_K ? v + s.m : v;
	}
}

FORCE float element(int type, const u8 *w, int cols, int row, int col) {
	switch (type) {
	case F16: return element_of<F16>(w, cols, row, col);
	case BF16: return element_of<BF16>(w, cols, row, col);
	case F8: return element_of<F8>(w, cols, row, col);
	case Q8_0: return element_of<Q8_0>(w, cols, row, col);
	case Q4_0: return element_of<Q4_0>(w, cols, row, col);
	case Q4_1: return element_of<Q4_1>(w, cols, row, col);
	case Q5_0: return element_of<Q5_0>(w, cols, row, col);
	case Q5_1: return element_of<Q5_1>(w, cols, row, col);
	case Q4_K: return element_of<Q4_K>(w, cols, row, col);
	case Q5_K: return element_of<Q5_K>(w, cols, row, col);
	case Q6_K: return element_of<Q6_K>(w, cols, row, col);
	}
	return ((const float *)w)[(u64)row * cols + col];
}
