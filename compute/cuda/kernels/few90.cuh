// Products of 16-bit matrices with few rows on Hopper: the arithmetic of
// linear16.cuh, fed by bulk copies.
#pragma once
#include "ring90.cuh"

template <int TYPE, int WM, int NT, int STAGES, int KS> FORCE void few90(const LinearArgs &a) {
	typedef Ring<WM, NT, STAGES, KS, 2048, 1024, 0> R;
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	start_next();
	if (a.tiles) wait_before();
	Place p;
	if (!place<WM * 16, NT * 8>(a, &p)) return wait_before();
	R ring;
	ring.open(memory, barriers);
	int warp = threadx / 32, lane = threadx % 32;
	if (warp == WM) return ring.feed(a, p);
	float sums[NT][4] = {};
	// multiply adds 32 columns.
	auto multiply = [&](u32 w, u32 x) __attribute__((always_inline)) {
		quad left[2] = {load_matrices(w), load_matrices(w + 256)}, right[NT];
		UNROLL for (int t = 0; t < NT; t++) right[t] = load_matrices(x + t * KS * 1024);
		UNROLL for (int t = 0; t < NT; t++) {
			if (TYPE == BF16) {
				multiply_brain(sums[t], left[0], right[t].x, right[t].y);
				multiply_brain(sums[t], left[1], right[t].z, right[t].w);
			} else {
				multiply_half(sums[t], left[0], right[t].x, right[t].y);
				multiply_half(sums[t], left[1], right[t].z, right[t].w);
			}
		}
	};
	int whole = a.records / KS;
	for (int k = 0; k * KS < a.records; k++) {
		u32 at = ring.take(k), w = left_at(at + warp * KS * 2048), x = at + R::rowsAt + lane * 16;
		if (k < whole) {
			UNROLL for (int half = 0; half < 2 * KS; half++) multiply(w + half / 2 * 2048 + half % 2 * 512, x + half * 512);
		} else {
			int n = (a.records - k * KS) * 2;
			for (int half = 0; half < n; half++) multiply(w + half / 2 * 2048 + half % 2 * 512, x + half * 512);
		}
		ring.give(k);
	}
	wait_before();
	UNROLL for (int t = 0; t < NT; t++) store_tile(p, sums[t], (p.strip + warp) * 16, p.row + t * 8, TYPE == F16 ? a.scales : 0);
}

#define FEW90(name, type, wm, nt, stages, ks) \
	KERNEL(wm * 32 + 32) void name(LinearArgs a) { few90<type, wm, nt, stages, ks>(a); }
