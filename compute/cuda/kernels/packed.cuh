// Rows of 16-bit numbers as the products take them: 64 columns after the other, in
// each all rows, eight at a time, in pieces of 8 columns of 8 rows.
#pragma once
#include "common.cuh"

#define LOG2E 1.44269504088896340736f

FORCE float activate(int kind, float v) {
	if (kind == 1) { // GELU with tanh(u) = 1 - 2/(exp(2u)+1)
		float u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
		float t = 1.0f - 2.0f * inverse_fast(exp2_fast(2.0f * LOG2E * u) + 1.0f);
		return 0.5f * v * (1.0f + t);
	}
	return v * inverse_fast(1.0f + exp2_fast(-LOG2E * v));
}

// piece_of counts pieces of 16 bytes: that of a row and eight columns.
FORCE u64 piece_of(int row, int rowTiles, int eight) {
	return (((u64)(eight / 8) * rowTiles + row / 8) * 8 + eight % 8) * 8 + row % 8;
}

// Eight columns as 16-bit numbers.
FORCE quad pack_eight(const float *v, int kind) {
	quad q;
	if (kind) q = {half_pair(v[0], v[1]), half_pair(v[2], v[3]), half_pair(v[4], v[5]), half_pair(v[6], v[7])};
	else q = {brain_pair(v[0], v[1]), brain_pair(v[2], v[3]), brain_pair(v[4], v[5]), brain_pair(v[6], v[7])};
	return q;
}

// The E4M3 code next to a number.
FORCE u8 code_fp8(float v) {
	u32 bits = bits_of(v), sign = bits >> 31 << 7, magnitude = bits & 0x7fffffff;
	float size = float_of(magnitude);
	if (size < 0.015625f) return (u8)(sign | (bits_of(size * 512.0f + 12582912.0f) & 0xff));
	u32 rounded = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - ((127 - 7) << 3);
	return (u8)(sign | (rounded < 0x7e ? rounded : 0x7e));
}

// Codes are rows quantized to 8 bits in groups of 32 columns. 64 columns of 8 rows are
// a unit: pieces of 16 columns, then of both groups and each row the scale, then the
// sum of what the codes stand for. Units lie as 16-bit rows do, all rows side by side.
#define UNIT_BYTES 640
#define UNIT_SCALES 512
#define UNIT_SUMS 576
struct Codes {
	u8 *packed;
	int rowTiles; // eights of rows
	int fp8;      // E4M3 numbers
};

FORCE u8 *unit_of(u8 *packed, int row, int rowTiles, int unit) {
	return packed + ((u64)unit * rowTiles + row / 8) * UNIT_BYTES;
}

// Rows of E4M3 numbers have a scale for each group of 128 columns. Those of 8 rows are a unit: pieces of
// 16 columns, then the scales.
#define EIGHT_UNIT 1056
#define EIGHT_UNIT_SCALES 1024

// top_of is the greatest magnitude of eight columns of each of so many lanes side by side.
template <int LANES> FORCE float top_of(const float *v) {
	u32 top = 0;
	UNROLL for (int i = 0; i < 8; i++) {
		u32 b = bits_of(v[i]) & 0x7fffffff;
		top = b > top ? b : top;
	}
	UNROLL for (int i = 1; i < LANES; i *= 2) {
		u32 o = shuffle_xor(top, i);
		top = o > top ? o : top;
	}
	return float_of(top);
}

// put_fp8 rounds eight columns of a row to E4M3; sixteen lanes side by side have a group.
FORCE void put_fp8(const Codes &c, int row, int eight, const float *v, bool there) {
	float most = top_of<16>(v), inverse = most > 0 ? 448.0f / most : 0;
	u32 words[2] = {0, 0};
	UNROLL for (int i = 0; i < 8; i++) words[i / 4] |= (u32)code_fp8(v[i] * inverse) << (i % 4 * 8);
	if (!there) return;
	u8 *unit = c.packed + ((u64)(eight / 16) * c.rowTiles + row / 8) * EIGHT_UNIT;
	*(duo *)(unit + eight % 16 / 2 * 128 + row % 8 * 16 + eight % 2 * 8) = {words[0], words[1]};
	if (eight % 16 == 0) ((float *)(unit + EIGHT_UNIT_SCALES))[row % 8] = most / 448.0f;
}

// put_codes quantizes eight columns of a row; four lanes side by side have a group.
// All lanes of a warp call it, with columns side by side.
FORCE void put_codes(const Codes &c, int row, int eight, const float *v, bool there) {
	if (c.fp8) return put_fp8(c, row, eight, v, there);
	float most = top_of<4>(v), inverse = most > 0 ? 127.0f / most : 0, scale = most / 127.0f;
	u32 words[2] = {0, 0};
	int sum = 0;
	UNROLL for (int i = 0; i < 8; i++) {
		u32 code = bits_of(v[i] * inverse + 12582912.0f) & 0xff;
		sum += (int)(s8)code;
		words[i / 4] |= code << (i % 4 * 8);
	}
	sum += shuffle_xor(sum, 1);
	sum += shuffle_xor(sum, 2);
	if (!there) return;
	u8 *unit = unit_of(c.packed, row, c.rowTiles, eight / 8);
	*(duo *)(unit + eight % 8 / 2 * 128 + row % 8 * 16 + eight % 2 * 8) = {words[0], words[1]};
	if (threadx % 4 > 0) return;
	int at = eight % 8 / 4 * 8 + row % 8;
	((float *)(unit + UNIT_SCALES))[at] = scale;
	((float *)(unit + UNIT_SUMS))[at] = scale * (float)sum;
}
