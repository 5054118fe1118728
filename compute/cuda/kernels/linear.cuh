// What the kernels of matrix products share.
//
// Weights are the M side of the tensor cores' product and activations the N
// side. Every result is one chain of additions over the columns in their order,
// whatever the tile, so that a row's bits do not depend on the rows beside it
// and all tile sizes agree.
#pragma once
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
	const float *scales, *sums; // of x
	const int *count;           // rows of x
	const int *tiles;           // the expert of each tile of rows; null without
	int records;                // of one strip
	int jobs, mtiles, ntiles;
	LinearJob job[3];
};

// A Place is what a block of threads computes.
struct Place {
	const u8 *w;
	const float *bias;
	float *out;
	int outputs, ld;
	int strip, row; // first strip of weights, first row of x
	int count;
};

// place finds it. Blocks that run at the same time share strips and rows: eight
// tiles of rows side by side go through all strips.
template <int BM, int BN> FORCE bool place(const LinearArgs &a, Place *p) {
	const int group = 8;
	int id = blockx, span = a.mtiles * group, g = id / span, width = a.ntiles - g * group;
	width = width < group ? width : group;
	id -= g * span;
	int n = g * group + id % width, m = id / width;
	p->row = n * BN;
	p->count = a.count[0];
	if (p->row >= p->count) return false;
	int j = 0;
	if (a.jobs > 1 && m >= a.job[1].tile0) j = 1;
	if (a.jobs > 2 && m >= a.job[2].tile0) j = 2;
	p->w = (const u8 *)a.job[j].w;
	p->bias = (const float *)a.job[j].bias;
	p->out = a.job[j].out;
	p->outputs = a.job[j].outputs;
	p->ld = a.job[j].ld;
	p->strip = (m - a.job[j].tile0) * (BM / STRIP);
	if (a.tiles) {
		int expert = a.tiles[n];
		p->w = ((const u8 *const *)a.job[j].w)[expert];
		if (p->bias) p->bias = ((const float *const *)a.job[j].bias)[expert];
	}
	return true;
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
