// Products of quantized matrices on Hopper: the arithmetic of linearq.cuh, fed by bulk copies.
#pragma once
#include "async90.cuh"
#include "linearq.cuh"

// A block of threads computes WM strips of outputs for NT tiles of rows. WN warps share
// the tiles of a strip, and PARTS its columns: one warp for each quarter, or one for
// all. One warp more copies KS records of each part at a time through a ring of STAGES.
template <int TYPE, int WM, int WN, int NT, int PARTS, int STAGES, int KS> FORCE void quant90(const LinearArgs &a) {
	typedef Layout<TYPE> L;
	enum {
		units = L::rec / 64, unit = NT * UNIT_BYTES, rowsAt = WM * KS * L::bytes, part = rowsAt + KS * units * unit,
		stage = PARTS * part, warps = WM * WN * PARTS, tiles = NT / WN, items = WM + KS * units
	};
	static_assert(PARTS * items <= 32 && (PARTS == 1 || PARTS == QUARTERS));
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	if (a.tiles) wait_before();
	Place p;
	if (!place<WM * 16, NT * 8>(a, &p)) return wait_before();
	u32 base = shared_address(memory), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, warps);
	int warp = threadx / 32, lane = threadx % 32;
	int steps = ((a.records + PARTS - 1) / PARTS + KS - 1) / KS;
	// Where a part begins, and how many records of it stage k has.
	auto from = [&](int i) __attribute__((always_inline)) { return PARTS == 1 ? i * a.records : quarter_at(a.records, i); };
	auto held = [&](int i, int k) __attribute__((always_inline)) {
		int left = from(i + 1) - from(i) - k * KS;
		return left < 0 ? 0 : least(left, KS);
	};
	if (warp == warps) {
		int mine = lane / items, item = lane % items, row = (item - WM) / units; // what the lane copies
		bool together = a.rowTiles == NT; // what a part has of the rows lies side by side: one copy
		bool weights = item < WM;
		const u8 *source = 0;
		u32 to = 0;
		if (lane < PARTS * items) {
			to = mine * part + (weights ? item * KS * L::bytes : rowsAt + (item - WM) * unit);
			if (weights) source = p.w + ((u64)least(p.strip + item, (p.outputs + 15) / 16 - 1) * a.records + from(mine)) * L::bytes;
			else source = a.x + (((u64)from(mine) * units + item - WM) * a.rowTiles + p.row / 8) * UNIT_BYTES;
		}
		auto expect = [&](int k) __attribute__((always_inline)) {
			int n = 0;
			UNROLL for (int i = 0; i < PARTS; i++) n += held(i, k);
			if (lane == 0) barrier_expect(full + 8 * (k % STAGES), n * (WM * L::bytes + units * unit));
			sync_warp();
		};
		auto copy = [&](int k) __attribute__((always_inline)) {
			int n = held(mine, k);
			u64 at = weights ? (u64)k * KS * L::bytes : (u64)k * KS * units * a.rowTiles * UNIT_BYTES;
			if (weights || together ? n > 0 && item <= WM : row < n)
				copy_bulk(base + k % STAGES * stage + to, source + at, weights ? n * L::bytes : together ? n * units * unit : unit,
					full + 8 * (k % STAGES));
		};
		// Weights are there before any kernel, so the first of them come while the kernel before still runs.
		for (int k = 0; k < least(STAGES, steps); k++) {
			expect(k);
			if (lane < PARTS * items && weights) copy(k);
		}
		wait_before();
		for (int k = 0; k < steps; k++) {
			if (k >= STAGES) {
				barrier_wait(empty + 8 * (k % STAGES), (k / STAGES - 1) & 1);
				expect(k);
			}
			if (lane < PARTS * items && (k >= STAGES || !weights)) copy(k);
		}
		start_next(); // not earlier: its weights would delay those of this kernel
		return;
	}
	int strip = warp % WM, tile = warp / WM % WN * tiles, mine = warp / (WM * WN), quarter = 1;
	float all[tiles][4] = {}, sums[tiles][4] = {};
	for (int k = 0; k < steps; k++) {
		barrier_wait(full + 8 * (k % STAGES), k / STAGES & 1);
		const u8 *at = memory + k % STAGES * stage + mine * part;
		auto multiply = [&](int r) __attribute__((always_inline)) {
			if (PARTS == 1 && k * KS + r >= quarter_at(a.records, quarter)) {
				unite_quarter<tiles>(all, sums);
				while (k * KS + r >= quarter_at(a.records, quarter)) quarter++;
			}
			multiply_record<TYPE, tiles, NT>(sums, at + (strip * KS + r) * L::bytes, at + rowsAt + r * (units * unit) + tile * UNIT_BYTES);
		};
		int n = held(mine, k);
		if (n == KS) {
			UNROLL for (int r = 0; r < KS; r++) multiply(r);
		} else {
			for (int r = 0; r < n; r++) multiply(r);
		}
		sync_warp();
		if (lane == 0) barrier_arrive(empty + 8 * (k % STAGES));
	}
	wait_before();
	if constexpr (PARTS == 1) {
		unite_quarter<tiles>(all, sums);
		UNROLL for (int n = 0; n < tiles; n++) store_tile(p, all[n], (p.strip + strip) * 16, p.row + (tile + n) * 8, 0);
	} else {
		// The quarters meet where the ring was; each of their warps unites some tiles.
		float(*met)[WM * WN][tiles][32][4] = (float(*)[WM * WN][tiles][32][4])memory;
		static_assert(warps * tiles * 512 <= STAGES * stage);
		sync_some(1, warps * 32);
		UNROLL for (int n = 0; n < tiles; n++)
			*(quad *)met[mine][warp % (WM * WN)][n][lane] = {bits_of(sums[n][0]), bits_of(sums[n][1]), bits_of(sums[n][2]), bits_of(sums[n][3])};
		sync_some(1, warps * 32);
		for (int n = mine; n < tiles; n += PARTS) {
			float total[1][4] = {};
			UNROLL for (int i = 0; i < PARTS; i++) {
				quad q = *(const quad *)met[i][warp % (WM * WN)][n][lane];
				float next[1][4] = {{float_of(q.x), float_of(q.y), float_of(q.z), float_of(q.w)}};
				unite_quarter<1>(total, next);
			}
			store_tile(p, total[0], (p.strip + strip) * 16, p.row + (tile + n) * 8, 0);
		}
	}
}

// The tiles are those of kernels.go. Of many outputs there are enough strips without the quarters.
#define QUANT90(name, type, few, tall, mid, wide, more, many, parts, ks, tks, mks) \
	KERNEL(160) void linear_##name##_8(LinearArgs a) { quant90<type, 1, 1, 1, 4, few, ks>(a); } \
	KERNEL(2 * parts * 32 + 32) void linear_##name##_8_tall(LinearArgs a) { quant90<type, 2, 1, 1, parts, tall, tks>(a); } \
	KERNEL(288) void linear_##name##_32(LinearArgs a) { quant90<type, 2, 1, 4, 4, mid, mks>(a); } \
	KERNEL(544) void linear_##name##_32_tall(LinearArgs a) { quant90<type, 4, 1, 4, 4, wide, mks>(a); } \
	KERNEL(544) void linear_##name##_64(LinearArgs a) { quant90<type, 2, 2, 8, 4, more, mks>(a); } \
	KERNEL(256) void linear_##name##_64_seven(LinearArgs a) { quant90<type, 7, 1, 8, 1, many, mks>(a); }

// Only records of 64 columns leave room for three strips in quarters.
#define QUANT90_THREE(name, type) \
	KERNEL(416) void linear_##name##_64_three(LinearArgs a) { quant90<type, 3, 1, 8, 4, 3, 2>(a); }
