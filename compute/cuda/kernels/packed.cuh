// Rows of 16-bit numbers as the products take them: 64 columns after the other, in
// each all rows, eight at a time, in pieces of 8 columns of 8 rows.
#pragma once
#include "common.cuh"

#define LOG2E 1.44269504088896340736f

FORCE float activate(int kind, float v) {
	if (kind == 1) { // GELU with tanh(u) = 1 - 2/(exp(2u)+1)
		float u = 0.7978845608028654f * (v + 0.044715f * v * v * v);
		float t = 1.0f - 2.0f / (exp2_fast(2.0f * LOG2E * u) + 1.0f);
		return 0.5f * v * (1.0f + t);
	}
	return v / (1.0f + exp2_fast(-LOG2E * v));
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

// Codes are rows quantized to 8 bits in groups of 32 columns: in tiles of 8 rows
// pieces of 16 columns, and of each group and row its scale and the sum of what the codes stand for.
struct Codes {
	s8 *packed;
	float *scales, *sums;
	int groups; // of a row, of which 64 columns have two
};

// put_codes quantizes eight columns of a row; four lanes side by side have a group.
// All lanes of a warp call it.
FORCE void put_codes(const Codes &c, int row, int eight, const float *v, bool there) {
	u32 top = 0;
	UNROLL for (int i = 0; i < 8; i++) {
		u32 b = bits_of(v[i]) & 0x7fffffff;
		top = b > top ? b : top;
	}
	UNROLL for (int i = 1; i < 4; i *= 2) {
		u32 o = shuffle_xor(top, i);
		top = o > top ? o : top;
	}
	float most = float_of(top), inverse = most > 0 ? 127.0f / most : 0, scale = most / 127.0f;
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
	*(duo *)(c.packed + (((u64)(row / 8) * (c.groups * 2) + eight / 2) * 8 + row % 8) * 16 + eight % 2 * 8) = {words[0], words[1]};
	if (threadx % 4 > 0) return;
	u64 at = ((u64)(row / 8) * c.groups + eight / 4) * 8 + row % 8;
	c.scales[at] = scale;
	c.sums[at] = scale * (float)sum;
}
