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

// The products of attention take bfloat16 numbers, and half numbers over a pool of codes, which become half numbers with
// the fewest instructions. Softmax weights, which are multiplied by the scales of values, are 2^WEIGHT_SHIFT
// times as large there: half numbers have no room for small ones. What is divided by the sum of weights does not change.
#ifdef POOL_CODES
#define NUMBER "f16"
#define WEIGHT_SHIFT 10
FORCE u32 number_pair(float lo, float hi) { return half_pair(lo, hi); }
FORCE void multiply_numbers(float *c, quad a, u32 b0, u32 b1) { multiply_half(c, a, b0, b1); }
#else
#define NUMBER "bf16"
#define WEIGHT_SHIFT 0
FORCE u32 number_pair(float lo, float hi) { return brain_pair(lo, hi); }
FORCE void multiply_numbers(float *c, quad a, u32 b0, u32 b1) { multiply_brain(c, a, b0, b1); }
#endif

// The scale of codes times the greatest weight must be a half number.
#define SCALE_MAX 63.75f

FORCE u32 permute(u32 a, u32 b, u32 bytes) {
	u32 r;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(bytes));
	return r;
}

// Two codes of four as numbers, exactly: the first two or the second. The bits of an E4M3 number are those of a half
// number that is 2^8 times as small and of a bfloat16 number that is 2^120 times as small, numbers without a leading one included.
FORCE u32 numbers_of(int type, u32 codes, int second) {
	u32 r;
	u32 apart = permute(codes, 0, second ? 0x3424 : 0x1404);
#ifdef POOL_CODES
	if (type == POOL_FP8) {
#if __CUDA_ARCH__ >= 900
		asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)(second ? codes >> 16 : codes)));
#else
		u32 small = (apart & 0x80008000) | (apart >> 1 & 0x3f803f80);
		asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(small), "r"(0x5c005c00), "r"(0x80008000));
#endif
		return r;
	}
	u32 more = permute(codes ^ 0x80808080, 0x64646464, second ? 0x4342 : 0x4140); // 1024 more than the code plus 128
	asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(more), "r"(0xe480e480));
	return r;
#else
	if (type == POOL_FP8) {
		u32 small = (apart & 0x80008000) | (apart >> 4 & 0x07f007f0);
		asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(small), "r"(0x7b807b80), "r"(0x80008000));
		return r;
	}
	apart ^= 0x80008000; // then as floats: 2^23 more than the code plus 128
	u32 low = permute(apart, 0x4b000000, 0x7441), high = permute(apart, 0x4b000000, 0x7443);
	return brain_pair(float_of(low) - 8388736.0f, float_of(high) - 8388736.0f);
#endif
}

FORCE bool in_pieces(const Pool &p) { return p.type == POOL_BF16 && p.dim % 8 == 0; }

// Codes of heads whose width is a multiple of 64 lie as the lanes of a warp give them to the
// tensor cores. Of keys, a word has columns 2t, 2t+1, 2t+8 and 2t+9 of 16 columns of a token, and a lane
// the words of four sixteens of columns. Of values, a word has tokens 2t, 2t+1, 2t+8 and
// 2t+9 of a column, and a lane the words of columns g and g+8.
FORCE bool in_lanes(const Pool &p) { return p.type >= POOL_INT8 && p.dim % 64 == 0; }

FORCE int lane_byte(int i) { return i / 8 * 2 + i % 2; }

// The place of a number among those of its block, layer and head.
FORCE int element_at(const Pool &p, int values, int token, int c) {
	if (in_pieces(p)) return ((token / 8 * (p.dim / 8) + c / 8) * 8 + token % 8) * 8 + c % 8;
	if (!in_lanes(p)) return token * p.dim + c;
	if (values) return (c / 16 * 32 + c % 8 * 4 + token % 8 / 2) * 8 + c % 16 / 8 * 4 + lane_byte(token);
	return ((token / 8 * (p.dim / 64) + c / 64) * 32 + token % 8 * 4 + c % 8 / 2) * 16 + c % 64 / 16 * 4 + lane_byte(c % 16);
}

// The number at that place, as products take it.
FORCE u16 number_at(const Pool &p, const u8 *part, int e) {
	switch (p.type) {
	case POOL_F32: return (u16)number_pair(((const float *)part)[e], 0);
	case POOL_BF16: return ((const u16 *)part)[e];
	}
	return (u16)numbers_of(p.type, part[e], 0);
}
