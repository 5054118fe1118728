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
