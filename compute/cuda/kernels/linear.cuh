// What the kernels of matrix products share.
//
// Weights are the M side of the tensor cores' product and activations the N
// side. Every result is one chain of additions over the columns in their order,
// whatever the tile, so that a row's bits do not depend on the rows beside it
// and all tile sizes agree.
#pragma once
#include "packed.cuh"
#include "weights.cuh"

struct LinearJob {
	const void *w, *bias; // with tiles: tables of one for each expert
	float *out;
	int outputs, ld;
	int tile0; // first block of threads along M
	int pad;
};

struct LinearArgs {
	const u8 *x;
	const float *scales; // of rows of half numbers
	const int *count;    // rows of x
	const int *tiles;    // the expert of each tile of rows; null without
	u16 *hidden;         // of a pair: where act(job 0)·job 1 goes as packed bfloat16
	int records;         // of one strip
	int jobs, mtiles, ntiles;
	int rowTiles; // eights of rows in x and hidden
	int act;
	LinearJob job[3];
};

// A Place is what a block of threads computes.
struct Place {
	const u8 *w, *up; // up: of a pair
	const float *bias, *upBias;
	float *out;
	int outputs, ld;
	int strip, row; // first strip of weights, first row of x
	int count;
};

// place_at finds tile m of the outputs and n of the rows.
template <int BM, int BN, bool PAIR> FORCE bool place_at(const LinearArgs &a, int m, int n, Place *p) {
	p->row = n * BN;
	p->count = a.count[0];
	if (p->row >= p->count) return false;
	int j = 0;
	if (!PAIR && a.jobs > 1 && m >= a.job[1].tile0) j = 1;
	if (!PAIR && a.jobs > 2 && m >= a.job[2].tile0) j = 2;
	p->w = (const u8 *)a.job[j].w;
	p->bias = (const float *)a.job[j].bias;
	p->out = a.job[j].out;
	p->outputs = a.job[j].outputs;
	p->ld = a.job[j].ld;
	p->strip = (m - a.job[j].tile0) * (BM / STRIP);
	if (PAIR) p->up = (const u8 *)a.job[1].w, p->upBias = (const float *)a.job[1].bias;
	if (a.tiles) {
		int expert = a.tiles[n];
		p->w = ((const u8 *const *)a.job[j].w)[expert];
		if (p->bias) p->bias = ((const float *const *)a.job[j].bias)[expert];
		if (PAIR) {
			p->up = ((const u8 *const *)a.job[1].w)[expert];
			if (p->upBias) p->upBias = ((const float *const *)a.job[1].bias)[expert];
		}
	}
	return true;
}

// place finds the tile of a block of threads. Blocks that run at the same time
// share strips and rows: eight tiles of rows side by side go through all strips.
template <int BM, int BN> FORCE bool place(const LinearArgs &a, Place *p) {
	const int group = 8;
	int id = blockx, span = a.mtiles * group, g = id / span, width = a.ntiles - g * group;
	width = width < group ? width : group;
	id -= g * span;
	return place_at<BM, BN, false>(a, id / width, g * group + id % width, p);
}

// left_at is where a lane reads 16 rows and 16 columns of a record of 16-bit
// numbers by load_matrices; 256 bytes on are the next 16 columns.
FORCE u32 left_at(u32 record) {
	int lane = threadx % 32;
	return record + lane / 8 % 2 * 1024 + lane / 16 * 128 + lane % 8 * 16;
}

// store writes a tile of 16 outputs and 8 rows.
FORCE void store_tile(const Place &p, const float *c, int output, int row, const float *rowScales) {
	int lane = threadx % 32, g = lane / 4, t = lane % 4;
	UNROLL for (int i = 0; i < 4; i++) {
		int o = output + g + i / 2 * 8, r = row + 2 * t + i % 2;
		if (o >= p.outputs || r >= p.count) continue;
		float v = c[i];
		if (rowScales) v *= rowScales[r];
		if (p.bias) v += p.bias[o];
		p.out[(u64)r * p.ld + o] = v;
	}
}

// store_pair writes a tile of act(gate)·up as packed bfloat16. Outputs up to the next
// multiple of 64 are zeros.
FORCE void store_pair(const LinearArgs &a, const Place &p, const float *gate, const float *up, int output, int row) {
	int lane = threadx % 32, g = lane / 4, t = lane % 4;
	UNROLL for (int half = 0; half < 2; half++) {
		int o = output + half * 8 + g;
		bool there = o < p.outputs;
		float v[2];
		UNROLL for (int j = 0; j < 2; j++) {
			float l = gate[half * 2 + j], r = up[half * 2 + j];
			if (p.bias && there) l += p.bias[o];
			if (p.upBias && there) r += p.upBias[o];
			v[j] = there ? activate(a.act, l) * r : 0;
		}
		// lanes g and g^1 exchange, so that each has two outputs of one row
		int odd = g & 1;
		float other = shuffle_xor(odd ? v[0] : v[1], 4), mine = odd ? v[1] : v[0];
		int r = row + 2 * t + odd;
		if (r >= p.count || output + half * 8 >= ROUND_UP(p.outputs, 64)) continue;
		u32 pair = odd ? brain_pair(other, mine) : brain_pair(mine, other);
		u64 at = piece_of(r, a.rowTiles, (output + half * 8) / 8) * 8 + (g & 6);
		*(u32 *)(a.hidden + at) = pair;
	}
}
