// Products of BF16 and F16 matrices with packed rows of activations.
#pragma once
#include "linear.cuh"

// A block of threads computes WM·MT strips of 16 outputs for WN·NTW tiles of 8
// rows. Both come through a ring of STAGES stages of 64 columns in shared memory.
template <int TYPE, int WM, int MT, int WN, int NTW, int STAGES> FORCE void linear16(const LinearArgs &a) {
	enum { threads = WM * WN * 32, strips = WM * MT, tiles = WN * NTW, stage = strips * 2048 + tiles * 1024 };
	extern __shared__ __attribute__((aligned(16))) u8 ring[];
	Place p;
	if (!place<strips * 16, tiles * 8>(a, &p)) return;
	int warp = threadx / 32, lane = threadx % 32, wm = warp % WM, wn = warp / WM;
	int lastStrip = (p.outputs + 15) / 16 - 1, lastTile = (p.count + 7) / 8 - 1;
	u32 base = shared_address(ring);

	auto load = [&](int k) __attribute__((always_inline)) {
		u32 to = base + k % STAGES * stage;
		UNROLL for (int i = 0; i < strips * 128 / threads; i++) {
			int c = i * threads + threadx;
			copy_async(to + c * 16, p.w + record16_at(least(p.strip + c / 128, lastStrip), a.records, k) + c % 128 * 16);
		}
		UNROLL for (int i = 0; i < (tiles * 64 + threads - 1) / threads; i++) {
			int c = i * threads + threadx;
			if (tiles * 64 % threads == 0 || c < tiles * 64)
				copy_async(to + strips * 2048 + c * 16, a.x + ((u64)k * a.rowTiles + least(p.row / 8 + c / 64, lastTile)) * 1024 + c % 64 * 16);
		}
	};

	float sums[MT][NTW][4] = {};
	UNROLL for (int k = 0; k < STAGES - 1; k++) {
		if (k < a.records) load(k);
		copy_commit();
	}
	for (int k = 0; k < a.records; k++) {
		copy_wait<STAGES - 2>();
		sync_block();
		if (k + STAGES - 1 < a.records) load(k + STAGES - 1);
		copy_commit();
		u32 w = left_at(base + k % STAGES * stage + wm * MT * 2048);
		u32 x = base + k % STAGES * stage + strips * 2048 + wn * NTW * 1024 + lane * 16;
		UNROLL for (int half = 0; half < 2; half++) {
			quad left[MT][2];
			UNROLL for (int m = 0; m < MT; m++) {
				left[m][0] = load_matrices(w + m * 2048 + half * 512);
				left[m][1] = load_matrices(w + m * 2048 + half * 512 + 256);
			}
			UNROLL for (int n = 0; n < NTW; n++) {
				quad right = load_matrices(x + n * 1024 + half * 512);
				UNROLL for (int m = 0; m < MT; m++) {
					if (TYPE == BF16) {
						multiply_brain(sums[m][n], left[m][0], right.x, right.y);
						multiply_brain(sums[m][n], left[m][1], right.z, right.w);
					} else {
						multiply_half(sums[m][n], left[m][0], right.x, right.y);
						multiply_half(sums[m][n], left[m][1], right.z, right.w);
					}
				}
			}
		}
	}
	copy_wait<0>();
	UNROLL for (int m = 0; m < MT; m++)
		UNROLL for (int n = 0; n < NTW; n++)
			store_tile(p, sums[m][n], (p.strip + wm * MT + m) * 16, p.row + (wn * NTW + n) * 8, TYPE == F16 ? a.scales : 0);
}

// Tiles by the number of rows. The stages are as in the table of linear.go.
#define LINEAR16(name, type, wm, mt, wn, ntw, stages) \
	KERNEL(wm * wn * 32) void name(LinearArgs a) { linear16<type, wm, mt, wn, ntw, stages>(a); }
