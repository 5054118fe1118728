// The key/value pool: [block][layer][keys, values][head], and there [16 tokens][dim]
// numbers or codes, and behind them the scales of the tokens in the types that have some.
// bfloat16 numbers of heads whose width is a multiple of eight lie in pieces of
// 8 tokens and 8 columns, as ldmatrix takes them: all columns of the first 8 tokens, then of the others.
#pragma once
#include "common.cuh"

#define BLOCK_TOKENS 16

enum PoolType { POOL_F32, POOL_BF16, POOL_INT8, POOL_FP8 };

struct Pool {
	u8 *data;
	int layers, heads, dim, type;
	int partBytes; // keys or values of a block, layer and head
	int elementBytes;
};

FORCE u8 *pool_part(const Pool &p, int block, int layer, int values, int head) {
	return p.data + ((((u64)block * p.layers + layer) * 2 + values) * p.heads + head) * p.partBytes;
}

FORCE u16 brain_of(float v) { return (u16)brain_pair(v, 0); }

// E4M3 as a bfloat16, exactly.
FORCE u16 brain_of_fp8(u32 code) {
	u32 sign = (code & 0x80) << 8, magnitude = code & 0x7f;
	if (magnitude == 0x7f) return (u16)(sign | 0x7fc0);
	if (magnitude < 8) { // a multiple of 2^-9
		float v = (float)magnitude * 0.001953125f;
		return (u16)(sign | bits_of(v) >> 16);
	}
	return (u16)(sign | ((magnitude << 4) + ((127 - 7) << 7)));
}

// Eight codes of a type as bfloat16 numbers.
FORCE quad brains_of(int type, duo codes) {
	u16 v[8];
	UNROLL for (int i = 0; i < 8; i++) {
		u32 code = (i < 4 ? codes.x : codes.y) >> (i % 4 * 8) & 0xff;
		v[i] = type == POOL_INT8 ? brain_of((float)(s8)code) : brain_of_fp8(code);
	}
	return {v[0] | (u32)v[1] << 16, v[2] | (u32)v[3] << 16, v[4] | (u32)v[5] << 16, v[6] | (u32)v[7] << 16};
}

FORCE bool in_pieces(const Pool &p) { return p.type == POOL_BF16 && p.dim % 8 == 0; }

// The place of a number among those of its block, layer and head.
FORCE int element_at(const Pool &p, int token, int c) {
	if (in_pieces(p)) return ((token / 8 * (p.dim / 8) + c / 8) * 8 + token % 8) * 8 + c % 8;
	return token * p.dim + c;
}
