// Products of 16-bit matrices with few rows on Hopper: the arithmetic of
// linear16.cuh, fed by bulk copies.
#pragma once
#include "async90.cuh"
#include "linear.cuh"

// A block of threads computes WM strips of 16 outputs at a time, one for each warp, for
// NT tiles of 8 rows; of a pair, as many of both matrices. One warp more copies KS
// records at a time through a ring of STAGES.
template <int TYPE, int WM, int NT, int STAGES, int KS, bool PAIR> FORCE void few90(const LinearArgs &a) {
	enum {
		sides = PAIR ? 2 : 1, record = WM * 2048, sideBytes = KS * record, rowsAt = sides * sideBytes,
		rowsBytes = NT * 1024, stage = rowsAt + KS * rowsBytes
	};
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	if (a.tiles) wait_before();
	u32 base = shared_address(memory), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, WM);
	int warp = threadx / 32, lane = threadx % 32, stages = (a.records + KS - 1) / KS, all = a.mtiles * a.ntiles;
	if (warp == WM) {
		int step = 0;
		bool waited = false;
		for (int id = blockx; id < all; id += gridx) {
			Place p;
			if (!place_at<WM * 16, NT * 8, PAIR>(a, id % a.mtiles, id / a.mtiles, &p)) break;
			auto weights = [&](int k) __attribute__((always_inline)) {
				int s = (step + k) % STAGES, n = least(KS, a.records - k * KS);
				if (lane == 0) barrier_expect(full + 8 * s, n * (sides * record + rowsBytes));
				sync_warp();
				if constexpr (WM == 4) { // records lie side by side
					if (lane < sides) copy_bulk(base + s * stage + lane * sideBytes,
						(lane ? p.up : p.w) + record16_at(p.strip, a.records, k * KS), n * record, full + 8 * s);
				} else {
					if (lane < sides * KS && lane % KS < n) copy_bulk(base + s * stage + lane * record,
						(lane < KS ? p.w : p.up) + record16_at(p.strip, a.records, k * KS + lane % KS), record, full + 8 * s);
				}
			};
			// What all records of a stage have of the rows lies side by side if the tile has all rows.
			auto rows = [&](int k) __attribute__((always_inline)) {
				int s = (step + k) % STAGES, n = least(KS, a.records - k * KS);
				if (a.rowTiles == NT) {
					if (lane == 0) copy_bulk(base + s * stage + rowsAt, a.x + (u64)k * KS * rowsBytes, n * rowsBytes, full + 8 * s);
				} else if (lane < n) copy_bulk(base + s * stage + rowsAt + lane * rowsBytes,
					a.x + ((u64)(k * KS + lane) * a.rowTiles + p.row / 8) * 1024, rowsBytes, full + 8 * s);
			};
			int early = 0; // stages whose weights come while the kernel before still runs
			if (!waited) {
				early = least(STAGES, stages);
				for (int k = 0; k < early; k++) weights(k);
				wait_before();
				waited = true;
			}
			for (int k = 0; k < stages; k++) {
				if (k >= early) {
					if (step + k >= STAGES) barrier_wait(empty + 8 * ((step + k) % STAGES), ((step + k) / STAGES - 1) & 1);
					weights(k);
				}
				rows(k);
			}
			step += stages;
		}
		start_next(); // not earlier: its weights would delay those of this kernel
		if (!waited) wait_before();
		return;
	}
	wait_before();
	int step = 0;
	for (int id = blockx; id < all; id += gridx) {
		Place p;
		if (!place_at<WM * 16, NT * 8, PAIR>(a, id % a.mtiles, id / a.mtiles, &p)) break;
		float sums[sides][NT][4] = {};
		// multiply adds 32 columns.
		auto multiply = [&](u32 w, u32 x) __attribute__((always_inline)) {
			quad right[NT];
			UNROLL for (int t = 0; t < NT; t++) right[t] = load_matrices(x + t * 1024);
			UNROLL for (int side = 0; side < sides; side++) {
				quad left[2] = {load_matrices(w + side * sideBytes), load_matrices(w + side * sideBytes + 256)};
				UNROLL for (int t = 0; t < NT; t++) {
					multiply16<TYPE>(sums[side][t], left[0], right[t].x, right[t].y);
					multiply16<TYPE>(sums[side][t], left[1], right[t].z, right[t].w);
				}
			}
		};
		for (int k = 0; k < stages; k++, step++) {
			int s = step % STAGES;
			barrier_wait(full + 8 * s, step / STAGES & 1);
			u32 w = left_at(base + s * stage + warp * 2048), x = base + s * stage + rowsAt + lane * 16;
			if ((k + 1) * KS <= a.records) {
				UNROLL for (int half = 0; half < 2 * KS; half++)
					multiply(w + half / 2 * record + half % 2 * 512, x + half / 2 * rowsBytes + half % 2 * 512);
			} else {
				for (int half = 0; half < (a.records - k * KS) * 2; half++)
					multiply(w + half / 2 * record + half % 2 * 512, x + half / 2 * rowsBytes + half % 2 * 512);
			}
			sync_warp();
			if (lane == 0) barrier_arrive(empty + 8 * s);
		}
		UNROLL for (int t = 0; t < NT; t++) {
			int output = (p.strip + warp) * 16, row = p.row + t * 8;
			if constexpr (PAIR) store_pair(a, p, sums[0][t], sums[1][t], output, row);
			else store_tile(p, sums[0][t], output, row, TYPE == F16 ? a.scales : 0);
		}
	}
}

#define FEW90(name, type, wm, nt, stages, ks) \
	KERNEL(wm * 32 + 32) void name(LinearArgs a) { few90<type, wm, nt, stages, ks, false>(a); }
#define PAIR90(name, type, wm, nt, stages, ks) \
	KERNEL(wm * 32 + 32) void name(LinearArgs a) { few90<type, wm, nt, stages, ks, true>(a); }
