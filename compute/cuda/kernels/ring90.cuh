// Streams of weights and rows through shared memory by bulk copies (sm_90), for
// products with few rows.
#pragma once
#include "async90.cuh"

// A Ring is STAGES stages of KS records of WM strips of weights, WB bytes each,
// and of NT tiles of rows, XB bytes each, with scales and sums of SB bytes, for WARPS warps.
template <int WARPS, int WM, int NT, int STAGES, int KS, int WB, int XB, int SB> struct Ring {
	enum {
		rowsAt = WM * KS * WB, scalesAt = rowsAt + NT * KS * XB, sumsAt = scalesAt + NT * KS * SB,
		stage = sumsAt + NT * KS * SB, items = WM + NT * (SB ? 3 : 1), recordBytes = WM * WB + NT * (XB + 2 * SB)
	};
	u32 base, full, empty;

	// open makes the barriers. Every thread of the block calls it.
	FORCE_MEMBER void open(u8 *memory, u64 *barriers) {
		base = shared_address(memory), full = shared_address(barriers), empty = full + 8 * STAGES;
		open_barriers<STAGES>(full, WARPS);
	}

	// feed copies everything, a lane for each part. Weights are there before any
	// kernel, so the first of them come while the kernel before still runs.
	FORCE_MEMBER void feed(const LinearArgs &a, const Place &p) {
		static_assert(items <= 32);
		int lane = threadx % 32, stages = (a.records + KS - 1) / KS;
		int lastStrip = (p.outputs + 15) / 16 - 1, lastTile = (p.count + 7) / 8 - 1;
		const u8 *from = 0, *x = a.x, *scales = (const u8 *)a.scales, *sums = (const u8 *)a.sums;
		u32 to = 0;
		int bytes = 0;
		if (lane < WM) {
			bytes = WB, to = lane * KS * WB;
			from = p.w + (u64)least(p.strip + lane, lastStrip) * a.records * WB;
		} else if (lane < items) {
			int part = (lane - WM) / NT, tile = (lane - WM) % NT;
			bytes = part == 0 ? XB : SB;
			to = (part == 0 ? rowsAt : part == 1 ? scalesAt : sumsAt) + tile * KS * bytes;
			from = part == 0 ? x : part == 1 ? scales : sums;
			from += (u64)least(p.row / 8 + tile, lastTile) * a.records * bytes;
		}
		auto copy = [&](int k) __attribute__((always_inline)) {
			int n = least(KS, a.records - k * KS) * bytes;
			copy_bulk(base + k % STAGES * stage + to, from + (u64)k * KS * bytes, n, full + 8 * (k % STAGES));
		};
		auto expect = [&](int k) __attribute__((always_inline)) {
			if (lane == 0) barrier_expect(full + 8 * (k % STAGES), least(KS, a.records - k * KS) * recordBytes);
			sync_warp();
		};
		for (int k = 0; k < least(STAGES, stages); k++) {
			expect(k);
			if (lane < WM) copy(k);
		}
		wait_before();
		for (int k = 0; k < stages; k++) {
			if (k < STAGES) {
				if (lane >= WM && lane < items) copy(k);
				continue;
			}
			barrier_wait(empty + 8 * (k % STAGES), (k / STAGES - 1) & 1);
			expect(k);
			if (lane < items) copy(k);
		}
	}

	// take waits for stage k and returns where it is; give gives it back.
	FORCE_MEMBER u32 take(int k) {
		barrier_wait(full + 8 * (k % STAGES), k / STAGES & 1);
		return base + k % STAGES * stage;
	}
	FORCE_MEMBER void give(int k) {
		sync_warp();
		if (threadx % 32 == 0) barrier_arrive(empty + 8 * (k % STAGES));
	}
};
