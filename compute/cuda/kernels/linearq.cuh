// Products of quantized matrices with rows quantized to 8 bits. The sums of
// integers over a group of columns are exact; they are scaled and added group
// by group, in the order of the columns. Each quarter of the columns has a sum of its
// own, and these are added in their order, so that four warps can share a strip.
#pragma once
#include "linear.cuh"

#define QUARTERS 4
FORCE int quarter_at(int records, int quarter) { return quarter * records / QUARTERS; }

// unite adds the sums of a quarter to those before it.
template <int NT> FORCE void unite_quarter(float (*all)[4], float (*sums)[4]) {
	UNROLL for (int n = 0; n < NT; n++) UNROLL for (int i = 0; i < 4; i++) all[n][i] += sums[n][i], sums[n][i] = 0;
}

// The bits of four codes, spread over the bytes of a word, as their fifth bits.
FORCE u32 fifth_bits(u32 bits) { return (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25; }
FORCE u32 upper_pairs(u32 bits) { return (bits & 3) << 4 | (bits & 12) << 10 | (bits & 48) << 16 | (bits & 192) << 22; }

// Bytes of 0..63 less a number up to 32.
template <int N> FORCE u32 less(u32 bytes) {
	if (N == 0) return bytes;
	return ((bytes | 0x80808080u) - N * 0x01010101u) ^ 0x80808080u;
}

// codes reads what a lane has of group j: columns 4t.. of its two rows, then 16+4t...
template <int TYPE> FORCE quad codes(const u8 *record, int j, int lane) {
	typedef Layout<TYPE> L;
	if constexpr (!L::nibbles) {
		return *(const quad *)(record + j * 512 + lane * 16);
	} else {
		int sub = j / 2, words = j % 2 * 2;
		duo low = *(const duo *)(record + sub * 512 + lane * 16 + words * 4);
		quad q = {low.x & 0x0f0f0f0f, low.y & 0x0f0f0f0f, low.x >> 4 & 0x0f0f0f0f, low.y >> 4 & 0x0f0f0f0f};
		const u8 *high = record + L::rec / 64 * 512;
		if (L::high == 1) {
			u32 bits = *(const u16 *)(high + sub * 128 + lane * 4 + words);
			q.x |= fifth_bits(bits), q.z |= fifth_bits(bits >> 4), q.y |= fifth_bits(bits >> 8), q.w |= fifth_bits(bits >> 12);
		}
		if (L::high == 2) {
			u32 bits = *(const u32 *)(high + sub * 256 + lane * 8 + words * 2);
			q.x |= upper_pairs(bits), q.z |= upper_pairs(bits >> 8), q.y |= upper_pairs(bits >> 16), q.w |= upper_pairs(bits >> 24);
		}
		const int zero = zero_of<TYPE>();
		q.x = less<zero>(q.x), q.y = less<zero>(q.y), q.z = less<zero>(q.z), q.w = less<zero>(q.w);
		return q;
	}
}

// The Scales of a lane's row in a record, loaded once.
template <int TYPE> struct Scales {
	float d, m;
	u32 words[4];

	FORCE_MEMBER void load(const u8 *record, int row) {
		const u8 *s = record + Layout<TYPE>::scales;
		if constexpr (TYPE == Q4_K || TYPE == Q5_K) {
			quad h = *(const quad *)(s + row * 16);
			d = from_half((u16)h.x), m = from_half((u16)(h.x >> 16));
			words[0] = h.y & 0x3f3f3f3f, words[2] = h.z & 0x3f3f3f3f;
			words[1] = (h.w & 0x0f0f0f0f) | (h.y >> 2 & 0x30303030);
			words[3] = (h.w >> 4 & 0x0f0f0f0f) | (h.z >> 2 & 0x30303030);
		} else if constexpr (TYPE == Q6_K) {
			quad h = *(const quad *)(s + row * 16);
			d = from_half(((const u16 *)(s + 256))[row]);
			words[0] = h.x, words[1] = h.y, words[2] = h.z, words[3] = h.w;
		}
	}

	// of is scale_of of group j.
	FORCE_MEMBER Scale of(const u8 *record, int row, int j) const {
		if constexpr (TYPE == Q4_K || TYPE == Q5_K) {
			Scale r = {d * (float)(u8)(words[j / 4] >> (j % 4 * 8)), -(m * (float)(u8)(words[2 + j / 4] >> (j % 4 * 8)))};
			return r;
		} else if constexpr (TYPE == Q6_K) {
			Scale r = {d * (float)(s8)(words[j / 4] >> (j % 4 * 8)), 0};
			return r;
		} else {
			return scale_of<TYPE>(record, row, j);
		}
	}
};

FORCE void scaled(float *sum, const int *c, float d0, float d1, const float *xs) {
	sum[0] = __builtin_fmaf(float_sum(c[0]), d0 * xs[0], sum[0]);
	sum[1] = __builtin_fmaf(float_sum(c[1]), d0 * xs[1], sum[1]);
	sum[2] = __builtin_fmaf(float_sum(c[2]), d1 * xs[0], sum[2]);
	sum[3] = __builtin_fmaf(float_sum(c[3]), d1 * xs[1], sum[3]);
}

// multiply_record adds what one record of 16 outputs contributes to NT tiles of
// rows, of ALL that lie side by side.
template <int TYPE, int NT, int ALL> FORCE void multiply_record(float (*sums)[4], const u8 *record, const u8 *rows) {
	typedef Layout<TYPE> L;
	enum { groups = L::rec / 32 };
	const bool hasMin = TYPE == Q4_1 || TYPE == Q5_1 || TYPE == Q4_K || TYPE == Q5_K;
	int lane = threadx % 32, g = lane / 4, t = lane % 4;
	Scales<TYPE> upper, lower;
	upper.load(record, g);
	lower.load(record, g + 8);
	UNROLL for (int sub = 0; sub < groups / 2; sub++) {
		const u8 *unit = rows + sub * (ALL * UNIT_BYTES);
		quad right[NT];
		UNROLL for (int n = 0; n < NT; n++) right[n] = load_matrices(shared_address(unit + n * UNIT_BYTES + lane * 16));
		UNROLL for (int half = 0; half < 2; half++) {
			int j = sub * 2 + half;
			quad left = codes<TYPE>(record, j, lane);
			Scale s0 = upper.of(record, g, TYPE == Q6_K ? 2 * j : j), s1 = lower.of(record, g + 8, TYPE == Q6_K ? 2 * j : j);
			Scale t0 = s0, t1 = s1;
			if (TYPE == Q6_K) t0 = upper.of(record, g, 2 * j + 1), t1 = lower.of(record, g + 8, 2 * j + 1);
			UNROLL for (int n = 0; n < NT; n++) {
				u32 b0 = half ? right[n].z : right[n].x, b1 = half ? right[n].w : right[n].y;
				const float *xs = (const float *)(unit + n * UNIT_BYTES + UNIT_SCALES) + half * 8 + 2 * t;
				int c[4];
				if (TYPE == Q6_K) {
					multiply_ints(c, left.x, left.y, b0);
					scaled(sums[n], c, s0.d, s1.d, xs);
					multiply_ints(c, left.z, left.w, b1);
					scaled(sums[n], c, t0.d, t1.d, xs);
				} else {
					multiply_ints(c, left, b0, b1);
					scaled(sums[n], c, s0.d, s1.d, xs);
				}
				if (hasMin) {
					const float *xm = xs + (UNIT_SUMS - UNIT_SCALES) / 4;
					sums[n][0] = __builtin_fmaf(s0.m, xm[0], sums[n][0]);
					sums[n][1] = __builtin_fmaf(s0.m, xm[1], sums[n][1]);
					sums[n][2] = __builtin_fmaf(s1.m, xm[0], sums[n][2]);
					sums[n][3] = __builtin_fmaf(s1.m, xm[1], sums[n][3]);
				}
			}
		}
	}
}

// A block of threads computes WM strips of 16 outputs, one for each warp, for
// NT tiles of 8 rows.
template <int TYPE, int WM, int NT, int STAGES> FORCE void linearq(const LinearArgs &a) {
	typedef Layout<TYPE> L;
	enum {
		threads = WM * 32, chunks = L::bytes / 16, units = L::rec / 64, pieces = UNIT_BYTES / 16,
		xAt = WM * L::bytes, stage = xAt + units * NT * UNIT_BYTES
	};
	extern __shared__ __attribute__((aligned(16))) u8 ring[];
	Place p;
	if (!place<WM * 16, NT * 8>(a, &p)) return;
	int warp = threadx / 32;
	int lastStrip = (p.outputs + 15) / 16 - 1, lastTile = (p.count + 7) / 8 - 1;
	u32 base = shared_address(ring);

	auto load = [&](int k) __attribute__((always_inline)) {
		u32 to = base + k % STAGES * stage;
		for (int c = threadx; c < WM * chunks; c += threads)
			copy_async(to + c * 16, p.w + ((u64)least(p.strip + c / chunks, lastStrip) * a.records + k) * L::bytes + c % chunks * 16);
		for (int c = threadx; c < units * NT * pieces; c += threads) {
			int unit = k * units + c / (NT * pieces), tile = least(p.row / 8 + c / pieces % NT, lastTile);
			copy_async(to + xAt + c * 16, a.x + ((u64)unit * a.rowTiles + tile) * UNIT_BYTES + c % pieces * 16);
		}
	};

	float all[NT][4] = {}, sums[NT][4] = {};
	UNROLL for (int k = 0; k < STAGES - 1; k++) {
		if (k < a.records) load(k);
		copy_commit();
	}
	int quarter = 1;
	for (int k = 0; k < a.records; k++) {
		copy_wait<STAGES - 2>();
		sync_block();
		if (k + STAGES - 1 < a.records) load(k + STAGES - 1);
		copy_commit();
		if (k >= quarter_at(a.records, quarter)) {
			unite_quarter<NT>(all, sums);
			while (k >= quarter_at(a.records, quarter)) quarter++;
		}
		const u8 *at = ring + k % STAGES * stage;
		multiply_record<TYPE, NT, NT>(sums, at + warp * L::bytes, at + xAt);
	}
	copy_wait<0>();
	unite_quarter<NT>(all, sums);
	UNROLL for (int n = 0; n < NT; n++) store_tile(p, all[n], (p.strip + warp) * 16, p.row + n * 8, 0);
}

#define LINEARQ(name, type, few, many) \
	KERNEL(64) void linear_##name##_8(LinearArgs a) { linearq<type, 2, 1, few>(a); } \
	KERNEL(128) void linear_##name##_32(LinearArgs a) { linearq<type, 4, 4, many>(a); } \
	KERNEL(128) void linear_##name##_64(LinearArgs a) { linearq<type, 4, 8, many>(a); }
