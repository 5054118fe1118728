// Products of rows with BF16 matrices, rows as the left side of the warpgroup instructions of Hopper: tiles of outputs
// may be any number of eights then, so that tiles can be as many as multiprocessors. The bits are those of
// linear90.cuh: the same chain of sixteens of columns.
#pragma once
#include "linear90.cuh"

// end_turned stores the sums of one row: lane % 4 has two of every eight outputs from first on, for one half of the rows.
template <int EIGHTS> FORCE void end_turned(const Place &p, const float *sums, int half, int row, int first) {
	float *to = p.out + (u64)row * p.ld;
	UNROLL for (int n = 0; n < EIGHTS; n++) {
		int output = first + n * 8 + threadx % 4 * 2;
		UNROLL for (int i = 0; i < 2; i++) {
			float v = sums[n * 4 + half * 2 + i];
			if (p.bias) v += p.bias[output + i];
			to[output + i] = v;
		}
	}
}

// end_turned_pair stores act(gate)·up of one row as packed bfloat16.
template <int EIGHTS> FORCE void end_turned_pair(const LinearArgs &a, const Place &p, const float *gates, const float *ups, int half, int row, int first) {
	UNROLL for (int n = 0; n < EIGHTS; n++) {
		int output = first + n * 8 + threadx % 4 * 2;
		float v[2];
		UNROLL for (int i = 0; i < 2; i++) {
			float gate = gates[n * 4 + half * 2 + i], up = ups[n * 4 + half * 2 + i];
			if (p.bias) gate += p.bias[output + i];
			if (p.upBias) up += p.upBias[output + i];
			v[i] = activate(a.act, gate) * up;
		}
		*(u32 *)(a.hidden + piece_of(row, a.rowTiles, output / 8) * 8 + output % 8) = brain_pair(v[0], v[1]);
	}
}

// A block of threads computes tile after tile: ROWS, 64 for each warpgroup, by OUTPUTS, of a PAIR those of both matrices.
// One warp more copies 64 columns at a time through a ring of STAGES. Matrices have at least OUTPUTS rows, in
// sixty-fours; the last tile begins earlier, so that it is whole.
template <int ROWS, int OUTPUTS, int STAGES, bool PAIR> FORCE void turned90(const LinearArgs &a) {
	enum { groups = ROWS / 64, sides = PAIR ? 2 : 1, eights = OUTPUTS / 8, side = eights * 1024, rowsAt = sides * side, stage = rowsAt + ROWS * 128 };
	extern __shared__ __attribute__((aligned(128))) u8 ring[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	begin();
	u32 base = shared_address(ring), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, groups * 4);
	int group = threadx / 128, warp = threadx / 32 % 4, lane = threadx % 32, all = a.mtiles * a.ntiles, first = 0, step = 0;
	auto find = [&](int id, Place *p) __attribute__((always_inline)) {
		const int across = 8;
		int span = a.ntiles * across, g = id / span, width = least(across, a.mtiles - g * across);
		id -= g * span;
		if (!place_at<STRIP, ROWS, PAIR>(a, g * across + id % width, id / width, p)) return false;
		first = least(p->strip * OUTPUTS, p->outputs - OUTPUTS); // place_at counts tiles as strips
		return true;
	};
	if (group == groups) {
		if (groups > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (warp > 0) return;
		for (int id = blockx; id < all; id += gridx) {
			Place p;
			if (!find(id, &p)) continue;
			// Four lanes for each matrix copy what the tile has of one record of 64 outputs each, and one lane rows.
			int begun = first / 8, record = begun / 8 + lane % 4;
			int from = begun > record * 8 ? begun : record * 8, count = least(begun + eights, record * 8 + 8) - from;
			const u8 *src = (!PAIR || lane < 4 ? p.w : p.up) + (u64)record * a.records * GROUP_BYTES + from % 8 * 1024;
			u64 next = GROUP_BYTES;
			int to = lane / 4 * side + (from - begun) * 1024;
			if (lane == sides * 4) src = a.x + (u64)(p.row / 8) * 1024, next = (u64)a.rowTiles * 1024, to = rowsAt, count = ROWS / 8;
			for (int k = 0; k < a.records; k++, step++) {
				int s = step % STAGES;
				if (step >= STAGES) barrier_wait(empty + 8 * s, (step / STAGES - 1) & 1);
				if (lane == 0) barrier_expect(full + 8 * s, stage);
				sync_warp();
				if (lane <= sides * 4 && count > 0) copy_bulk(base + s * stage + to, src + k * next, count * 1024, full + 8 * s);
			}
		}
		return;
	}
	if (groups > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
	for (int id = blockx; id < all; id += gridx) {
		Place p;
		if (!find(id, &p)) continue;
		float sums[sides][OUTPUTS / 2];
		UNROLL for (int i = 0; i < sides; i++) UNROLL for (int j = 0; j < OUTPUTS / 2; j++) sums[i][j] = 0;
		// A stage is given back when the one after it is being multiplied.
		for (int k = 0; k < a.records; k++, step++) {
			int s = step % STAGES;
			barrier_wait(full + 8 * s, step / STAGES & 1);
			u64 left = pieces_at(base + s * stage + rowsAt + group * 8192), right = pieces_at(base + s * stage);
			group_fence();
			UNROLL for (int i = 0; i < 4; i++)
				UNROLL for (int j = 0; j < sides; j++) multiply_group<BF16, OUTPUTS>(sums[j], left + i * 16, right + j * (side / 16) + i * 16);
			group_commit();
			group_wait<1>();
			sync_warp();
			if (k > 0 && lane == 0) barrier_arrive(empty + 8 * ((step - 1) % STAGES));
		}
		group_wait<0>();
		sync_warp();
		if (lane == 0) barrier_arrive(empty + 8 * ((step - 1) % STAGES));
		UNROLL for (int half = 0; half < 2; half++) {
			int row = p.row + group * 64 + warp * 16 + half * 8 + lane / 4;
			if (row >= p.count) continue;
			if constexpr (PAIR) end_turned_pair<eights>(a, p, sums[0], sums[1], half, row, first);
			else end_turned<eights>(p, sums[0], half, row, first);
		}
	}
}

#define TURNED90(name, rows, outputs, stages, pair) \
	BOUNDED((rows / 64 + 1) * 128, 1) void name(LinearArgs a) { turned90<rows, outputs, stages, pair>(a); }
