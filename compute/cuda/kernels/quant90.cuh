// Products of quantized matrices on Hopper: the arithmetic of linearq.cuh, fed by bulk copies.
#pragma once
#include "linearq.cuh"
#include "ring90.cuh"

// A block of threads computes WM strips of outputs for NT tiles of rows, WN warps a strip.
template <int TYPE, int WM, int WN, int NT, int STAGES, int KS> FORCE void quant90(const LinearArgs &a) {
	typedef Layout<TYPE> L;
	typedef Ring<WM * WN, WM, NT, STAGES, KS, L::bytes, L::rec * 8, L::rec / 32 * 32> R;
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	start_next();
	if (a.tiles) wait_before();
	Place p;
	if (!place<WM * 16, NT * 8>(a, &p)) return wait_before();
	R ring;
	ring.open(memory, barriers);
	enum { tiles = NT / WN };
	int warp = threadx / 32, strip = warp % WM, tile = warp / WM * tiles;
	if (warp == WM * WN) return ring.feed(a, p);
	float sums[tiles][4] = {};
	for (int k = 0; k * KS < a.records; k++) {
		ring.take(k);
		const u8 *at = memory + k % STAGES * R::stage;
		auto multiply = [&](int r) __attribute__((always_inline)) {
			int n = tile * KS + r;
			multiply_record<TYPE, tiles, KS>(sums, at + (strip * KS + r) * L::bytes, at + R::rowsAt + n * (L::rec * 8),
				at + R::scalesAt + n * (L::rec / 32 * 32), at + R::sumsAt + n * (L::rec / 32 * 32));
		};
		if ((k + 1) * KS <= a.records) {
			UNROLL for (int r = 0; r < KS; r++) multiply(r);
		} else {
			for (int r = 0; r < a.records - k * KS; r++) multiply(r);
		}
		ring.give(k);
	}
	wait_before();
	UNROLL for (int n = 0; n < tiles; n++) store_tile(p, sums[n], (p.strip + strip) * 16, p.row + (tile + n) * 8, 0);
}

// The stages are as in kernels.go.
#define QUANT90(name, type, few, tall, mid, many, ks, mks) \
	KERNEL(64) void linear_##name##_8(LinearArgs a) { quant90<type, 1, 1, 1, few, ks>(a); } \
	KERNEL(96) void linear_##name##_8_tall(LinearArgs a) { quant90<type, 2, 1, 1, tall, ks>(a); } \
	KERNEL(160) void linear_##name##_32(LinearArgs a) { quant90<type, 2, 2, 4, mid, mks>(a); } \
	KERNEL(288) void linear_##name##_32_tall(LinearArgs a) { quant90<type, 4, 2, 4, mid, mks>(a); } \
	KERNEL(160) void linear_##name##_64(LinearArgs a) { quant90<type, 2, 2, 8, many, mks>(a); } \
	KERNEL(288) void linear_##name##_64_tall(LinearArgs a) { quant90<type, 4, 2, 8, many, mks>(a); }
