// The key/value pool: [block][layer][keys, values], and there [head][16 tokens][dim] numbers or codes. In the
// types with scales [head][16 tokens] of them follow, so that codes begin where copies of memory are fast.
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
	u64 parts = (((u64)block * p.layers + layer) * 2 + values) * p.heads;
	return p.data + parts * p.partBytes + head * (p.dim * BLOCK_TOKENS * p.elementBytes);
}

// scales_of are those of a block's tokens in types that have some.
FORCE u16 *scales_of(const Pool &p, int block, int layer, int values, int head) {
	return (u16 *)pool_part(p, block, layer, values, p.heads) + head * BLOCK_TOKENS;
}

FORCE u16 brain_of(float v) { return (u16)brain_pair(v, 0); }

// Two codes of a type as bfloat16 numbers, exactly: of bytes 1 and 3 of a word. The bits of an E4M3
// number are those of a bfloat16 that is 2^120 times as small, numbers without a leading one included.
FORCE u32 brains_of(int type, u32 codes) {
	u32 r;
	if (type == POOL_FP8) {
		u32 small = (codes & 0x80008000) | (codes >> 4 & 0x07f007f0);
		asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(small), "r"(0x7b807b80), "r"(0x80008000));
		return r;
	}
	u32 low, high; // as floats: 2^23 more than the code plus 128
	asm("prmt.b32 %0, %1, %2, 0x7441;" : "=r"(low) : "r"(codes ^ 0x80808080), "r"(0x4b000000));
	asm("prmt.b32 %0, %1, %2, 0x7443;" : "=r"(high) : "r"(codes ^ 0x80808080), "r"(0x4b000000));
	return brain_pair(float_of(low) - 8388736.0f, float_of(high) - 8388736.0f);
}

FORCE bool in_pieces(const Pool &p) { return p.type == POOL_BF16 && p.dim % 8 == 0; }

// Codes of heads whose width is a multiple of 64 lie as the lanes of a warp give them to the
// tensor cores. Of keys, a word has columns 2t, 2t+1, 2t+8 and 2t+9 of 16 columns of a token, and a lane
// the words of four sixteens of columns. Of values, a word has tokens 2t, 2t+1, 2t+8 and
// 2t+9 of a column, and a lane the words of columns g and g+8. The first two are bytes 1 and 3 of their word.
FORCE bool in_lanes(const Pool &p) { return p.type >= POOL_INT8 && p.dim % 64 == 0; }

FORCE int lane_byte(int i) { return (i / 8 ^ 1) + i % 2 * 2; }

// The place of a number among those of its block, layer and head.
FORCE int element_at(const Pool &p, int values, int token, int c) {
	if (in_pieces(p)) return ((token / 8 * (p.dim / 8) + c / 8) * 8 + token % 8) * 8 + c % 8;
	if (!in_lanes(p)) return token * p.dim + c;
	if (values) return (c / 16 * 32 + c % 8 * 4 + token % 8 / 2) * 8 + c % 16 / 8 * 4 + lane_byte(token);
	return ((token / 8 * (p.dim / 64) + c / 64) * 32 + token % 8 * 4 + c % 8 / 2) * 16 + c % 64 / 16 * 4 + lane_byte(c % 16);
}

// The number at that place as a bfloat16.
FORCE u16 brain_at(const Pool &p, const u8 *part, int e) {
	switch (p.type) {
	case POOL_F32: return brain_of(((const float *)part)[e]);
	case POOL_BF16: return ((const u16 *)part)[e];
	}
	return (u16)brains_of(p.type, (u32)part[e] << 8);
}
