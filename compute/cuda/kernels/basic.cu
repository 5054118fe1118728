// Operations on rows of activations: norms, packing for the tensor cores,
// products with float32 weights, routing of experts.
//
// Packed activations are pieces of 8 rows and 16 bytes: 8 columns of 16-bit
// numbers or 16 of 8-bit ones. That is what both ldmatrix and wgmma take.
// They lie as packed.cuh says. Columns are padded with zeros to a multiple of 64.
#include "packed.cuh"

// block_sum adds over 256 threads; the order depends on nothing.
FORCE float block_sum(float v) {
	__shared__ float sums[8];
	v = warp_sum(v);
	sync_block();
	if (threadx % 32 == 0) sums[threadx / 32] = v;
	sync_block();
	float all = 0;
	UNROLL for (int i = 0; i < 8; i++) all += sums[i];
	return all;
}

FORCE void load_eight(float *v, const float *from, int left, bool whole) {
	if (whole) {
		quad a = ((const quad *)from)[0], b = ((const quad *)from)[1];
		v[0] = float_of(a.x), v[1] = float_of(a.y), v[2] = float_of(a.z), v[3] = float_of(a.w);
		v[4] = float_of(b.x), v[5] = float_of(b.y), v[6] = float_of(b.z), v[7] = float_of(b.w);
		return;
	}
	UNROLL for (int i = 0; i < 8; i++) v[i] = i < left ? from[i] : 0;
}

FORCE void store_eight(float *to, const float *v, int left, bool whole) {
	if (whole) {
		((quad *)to)[0] = {bits_of(v[0]), bits_of(v[1]), bits_of(v[2]), bits_of(v[3])};
		((quad *)to)[1] = {bits_of(v[4]), bits_of(v[5]), bits_of(v[6]), bits_of(v[7])};
		return;
	}
	UNROLL for (int i = 0; i < 8; i++)
		if (i < left) to[i] = v[i];
}

struct NormArgs {
	float *dst, *src;
	const float *add; // is added to src first, if not null
	const float *w;
	quad *packed; // bfloat16, if not null; then dst may be null
	const int *step;
	int cols;
	float eps, offset;
	int rowTiles; // of packed
	Codes codes;  // if not null
};

// norm is the RMS norm, after an addition if there is one: one block of threads
// for each row. Rows up to 4096 columns stay in registers.
KERNEL(256) void norm(NormArgs a) {
	enum { held = 2 };
	int row = blockx, cols = a.cols, padded = ROUND_UP(cols, a.codes.fp8 ? 128 : 64);
	bool whole = cols % 8 == 0;
	start_next();
	int rows = a.step[STEP_ROWS];
	float factors[held][8] = {}; // weights come while the kernel before still runs
	UNROLL for (int n = 0; n < held; n++) {
		int c = (n * 256 + threadx) * 8;
		if (c < cols) load_eight(factors[n], a.w + c, cols - c, whole);
	}
	wait_before();
	if (row >= rows) return;
	float *src = a.src + (u64)row * cols, *dst = a.dst ? a.dst + (u64)row * cols : 0;
	float sum = 0, kept[held][8] = {}, added[held][8] = {}, w[8];
	auto load = [&](float *v, float *more, int c) __attribute__((always_inline)) {
		load_eight(v, src + c, cols - c, whole);
		if (a.add) load_eight(more, a.add + (u64)row * cols + c, cols - c, whole);
	};
	auto take = [&](float *v, const float *more, int c) __attribute__((always_inline)) {
		if (a.add) {
			UNROLL for (int i = 0; i < 8; i++) v[i] += more[i];
			store_eight(src + c, v, cols - c, whole);
		}
		UNROLL for (int i = 0; i < 8; i++) sum = __builtin_fmaf(v[i], v[i], sum);
	};
	UNROLL for (int n = 0; n < held; n++)
		if ((n * 256 + threadx) * 8 < cols) load(kept[n], added[n], (n * 256 + threadx) * 8);
	UNROLL for (int n = 0; n < held; n++)
		if ((n * 256 + threadx) * 8 < cols) take(kept[n], added[n], (n * 256 + threadx) * 8);
	for (int c = (held * 256 + threadx) * 8; c < cols; c += 256 * 8) {
		float v[8];
		load(v, w, c);
		take(v, w, c);
	}
	float inverse = 1.0f / __builtin_sqrtf(block_sum(sum) / (float)cols + a.eps);
	auto store = [&](float *v, const float *w, int c) __attribute__((always_inline)) {
		UNROLL for (int i = 0; i < 8; i++) v[i] = c + i < cols ? v[i] * inverse * (w[i] + a.offset) : 0;
		if (dst) store_eight(dst + c, v, cols - c, whole && c < cols);
		if (a.packed) a.packed[piece_of(row, a.rowTiles, c / 8)] = pack_eight(v, 0);
	};
	// Whole warps quantize.
	auto quantize = [&](float *v, int c) __attribute__((always_inline)) {
		if (a.codes.packed) put_codes(a.codes, row, c / 8, v, c < padded);
	};
	UNROLL for (int n = 0; n < held; n++) {
		int c = (n * 256 + threadx) * 8;
		if (c < padded) store(kept[n], factors[n], c);
		if ((n * 256 + threadx / 32 * 32) * 8 < padded) quantize(kept[n], c);
	}
	for (int first = (held * 256 + threadx / 32 * 32) * 8; first < padded; first += 256 * 8) {
		float v[8] = {};
		int c = first + threadx % 32 * 8;
		if (c < padded) {
			load_eight(v, src + c, cols - c, whole && c < cols);
			load_eight(w, a.w + c, cols - c, whole && c < cols);
			store(v, w, c);
		}
		quantize(v, c);
	}
}

struct AddArgs {
	float *dst;
	const float *src;
	const int *step;
	int cols;
};

KERNEL(256) void add(AddArgs a) {
	begin();
	u64 n = (u64)a.step[STEP_ROWS] * a.cols;
	for (u64 i = (u64)blockx * 256 + threadx; i < n; i += (u64)gridx * 256) a.dst[i] += a.src[i];
}

struct PackArgs {
	const float *src, *up; // with up: act(src)·up
	void *packed;
	float *scales;
	const int *count; // how many rows
	const int *rows;  // which of src, -1 for zeros; null for all
	int cols, kind;   // kind 1: half numbers, with a power of two for each row
	int act;
	int rowTiles; // of packed
};

FORCE bool pack_row(const PackArgs &a, int at, const float **src, const float **up) {
	int row = a.rows ? a.rows[at] : at;
	*src = a.src + (u64)(row < 0 ? 0 : row) * a.cols;
	*up = a.up ? a.up + (u64)(row < 0 ? 0 : row) * a.cols : 0;
	return row >= 0;
}

FORCE void pack_load(const PackArgs &a, float *v, const float *src, const float *up, int c, bool there) {
	int left = there ? a.cols - c : 0;
	bool whole = left >= 8 && a.cols % 8 == 0;
	load_eight(v, src + c, left, whole);
	if (!a.up) return;
	float u[8];
	load_eight(u, up + c, left, whole);
	UNROLL for (int i = 0; i < 8; i++) v[i] = activate(a.act, v[i]) * u[i];
}

// pack16 writes rows as 16-bit numbers: one block of threads for each row and
// 2048 columns, or for all columns if the row needs a common power of two.
KERNEL(256) void pack16(PackArgs a) {
	begin();
	int at = blockx;
	if (at >= a.count[0]) return;
	const float *src, *up;
	bool there = pack_row(a, at, &src, &up);
	float v[8], factor = 1;
	if (a.kind == 1) {
		u32 top = 0;
		for (int c = threadx * 8; c < a.cols; c += 256 * 8) {
			pack_load(a, v, src, up, c, there);
			UNROLL for (int i = 0; i < 8; i++) {
				u32 b = bits_of(v[i]) & 0x7fffffff;
				top = b > top ? b : top;
			}
		}
		__shared__ u32 tops[8];
		top = warp_max(top);
		if (threadx % 32 == 0) tops[threadx / 32] = top;
		sync_block();
		UNROLL for (int i = 0; i < 8; i++) top = tops[i] > top ? tops[i] : top;
		int exponent = (int)(top >> 23); // the greatest becomes about 2^14
		exponent = exponent < 28 ? 28 : exponent > 240 ? 240 : exponent;
		factor = float_of((u32)(127 + 14 + 127 - exponent) << 23);
		if (threadx == 0) a.scales[at] = float_of((u32)(exponent - 14) << 23);
	}
	for (int c = (blocky * 256 + threadx) * 8; c < ROUND_UP(a.cols, 64); c += gridy * 256 * 8) {
		pack_load(a, v, src, up, c, there && c < a.cols);
		UNROLL for (int i = 0; i < 8; i++) v[i] *= factor;
		((quad *)a.packed)[piece_of(at, a.rowTiles, c / 8)] = pack_eight(v, a.kind);
	}
}

// pack_fp8 rounds rows to E4M3: one block of threads for each row and 2048 columns.
KERNEL(256) void pack_fp8(PackArgs a) {
	begin();
	int at = blockx;
	if (at >= a.count[0]) return;
	const float *src, *up;
	bool there = pack_row(a, at, &src, &up);
	Codes codes = {(u8 *)a.packed, a.rowTiles, 1};
	int c = (blocky * 256 + threadx) * 8;
	float v[8];
	pack_load(a, v, src, up, c, there && c < a.cols);
	put_fp8(codes, at, c / 8, v, c < ROUND_UP(a.cols, 128));
}

// pack8 quantizes rows to 8 bits in groups of 32 columns: one warp for 32
// columns of a row, a block of threads for 256. It also keeps the sum of what the codes of a group stand for.
KERNEL(256) void pack8(PackArgs a) {
	begin();
	int at = blockx, padded = ROUND_UP(a.cols, 64), lane = threadx % 32;
	if (at >= a.count[0]) return;
	const float *src, *up;
	bool there = pack_row(a, at, &src, &up);
	for (int group = blocky * 8 + threadx / 32; group < padded / 32; group += gridy * 8) {
		int c = group * 32 + lane;
		float v = there && c < a.cols ? src[c] : 0;
		if (a.up && there && c < a.cols) v = activate(a.act, v) * up[c];
		float top = float_of(warp_max(bits_of(v) & 0x7fffffff));
		float inverse = top > 0 ? 127.0f / top : 0, scale = top / 127.0f;
		int code = (int)(bits_of(v * inverse + 12582912.0f) & 0xff);
		code = (int)(s8)code;
		int sum = warp_sum(code);
		u8 *unit = unit_of((u8 *)a.packed, at, a.rowTiles, group / 2);
		unit[(group % 2 * 2 + lane / 16) * 128 + at % 8 * 16 + lane % 16] = (u8)code;
		if (lane == 0) {
			int i = group % 2 * 8 + at % 8;
			((float *)(unit + UNIT_SCALES))[i] = scale;
			((float *)(unit + UNIT_SUMS))[i] = scale * (float)sum;
		}
	}
}

struct ActivateArgs {
	float *gate;
	const float *up;
	const int *count;
	int cols, act;
};

KERNEL(256) void gate_up(ActivateArgs a) {
	begin();
	u64 n = (u64)a.count[0] * a.cols;
	for (u64 i = (u64)blockx * 256 + threadx; i < n; i += (u64)gridx * 256) a.gate[i] = activate(a.act, a.gate[i]) * a.up[i];
}

struct FloatArgs {
	const float *x;
	const void *w, *bias; // with tiles: a table of one for each expert
	float *out;
	const int *count, *rows; // rows of x; null for all
	const int *tiles;        // the expert of each tile of 8 rows; null without
	int outputs, cols, ld;
};

// linear_f32 multiplies with float32 weights: one warp for an output and 8 rows.
KERNEL(256) void linear_f32(FloatArgs a) {
	begin();
	int output = blockx * 8 + threadx / 32, lane = threadx % 32, count = a.count[0];
	int first = blocky * 8;
	if (output >= a.outputs || first >= count) return;
	const float *w = (const float *)a.w, *bias = (const float *)a.bias;
	if (a.tiles) {
		int expert = a.tiles[blocky];
		w = ((const float *const *)a.w)[expert];
		if (a.bias) bias = ((const float *const *)a.bias)[expert];
	}
	w += (u64)output * a.cols;
	const float *x[8];
	UNROLL for (int i = 0; i < 8; i++) {
		int row = first + i < count ? (a.rows ? a.rows[first + i] : first + i) : 0;
		x[i] = a.x + (u64)(row < 0 ? 0 : row) * a.cols;
	}
	enum { atOnce = 8 }; // columns of a lane that are loaded before they are multiplied
	float sums[8] = {};
	for (int c = lane; c < a.cols; c += 32 * atOnce) {
		float v[atOnce];
		UNROLL for (int j = 0; j < atOnce; j++) v[j] = c + 32 * j < a.cols ? w[c + 32 * j] : 0;
		UNROLL for (int i = 0; i < 8; i++) {
			if (first + i >= count) continue;
			float u[atOnce];
			UNROLL for (int j = 0; j < atOnce; j++) u[j] = c + 32 * j < a.cols ? x[i][c + 32 * j] : 0;
			UNROLL for (int j = 0; j < atOnce; j++)
				if (c + 32 * j < a.cols) sums[i] = __builtin_fmaf(v[j], u[j], sums[i]);
		}
	}
	UNROLL for (int i = 0; i < 8; i++) {
		float sum = warp_sum(sums[i]);
		if (bias) sum += bias[output];
		if (lane == 0 && first + i < count) a.out[(u64)(first + i) * a.ld + output] = sum;
	}
}

struct RouteArgs {
	const float *scores; // [rows][experts]
	int *chosen;         // [rows][topk], ascending
	float *weights;      // [rows][topk]
	const int *step;
	int experts, topk, norm;
};

#define EXPERTS_A_LANE 32

// route chooses the experts of a row: one warp for each row.
KERNEL(32) void route(RouteArgs a) {
	begin();
	int row = blockx, lane = threadx;
	if (row >= a.step[STEP_ROWS]) return;
	const float *scores = a.scores + (u64)row * a.experts;
	__shared__ float probs[32 * EXPERTS_A_LANE];
	float top = -__builtin_inff(), sum = 0;
	for (int e = lane; e < a.experts; e += 32) top = __builtin_fmaxf(top, scores[e]);
	for (int i = 16; i > 0; i >>= 1) top = __builtin_fmaxf(top, shuffle_xor(top, i));
	for (int e = lane; e < a.experts; e += 32) {
		float p = exp2_fast((scores[e] - top) * LOG2E);
		probs[e] = p;
		sum += p;
	}
	sum = warp_sum(sum);
	int mine = 0x7fffffff;
	float weight = 0, total = 0;
	for (int k = 0; k < a.topk; k++) {
		float best = -1;
		int at = k; // if no score is a number
		for (int e = lane; e < a.experts; e += 32)
			if (probs[e] > best) best = probs[e], at = e;
		for (int i = 16; i > 0; i >>= 1) {
			float b = shuffle_xor(best, i);
			int e = shuffle_xor(at, i);
			if (b > best || (b == best && e < at)) best = b, at = e;
		}
		float p = best / sum;
		if (k == lane) mine = at, weight = p;
		total += p;
		if (at % 32 == lane) probs[at] = -2;
	}
	if (a.norm) weight = weight / total;
	int rank = 0;
	for (int k = 0; k < a.topk; k++) {
		u32 other;
		asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(other) : "r"(mine), "r"(k));
		rank += (int)other < mine;
	}
	if (lane >= a.topk) return;
	a.chosen[(u64)row * a.topk + rank] = mine;
	a.weights[(u64)row * a.topk + rank] = weight;
}

struct SlotArgs {
	const int *chosen;
	int *slots;   // [rows][topk]: where each choice is computed
	int *sources; // [slots]: the row of each slot, -1 for none
	int *tiles;   // the expert of each tile of slots
	int *count;   // slots in all
	const int *step;
	int experts, topk, tile;
};

// slots puts the choices of all rows in order of experts, each expert's filled
// up to whole tiles. It is one block of threads.
KERNEL(1024) void slots(SlotArgs a) {
	begin();
	__shared__ int next[1024 + 1];
	int choices = a.step[STEP_ROWS] * a.topk;
	for (int e = threadx; e <= a.experts; e += 1024) next[e] = 0;
	sync_block();
	for (int i = threadx; i < choices; i += 1024) __nvvm_atom_add_gen_i(&next[a.chosen[i]], 1);
	sync_block();
	int first = 0, mine = 0; // of the thread's expert
	if (threadx < a.experts) {
		for (int e = 0; e < threadx; e++) first += ROUND_UP(next[e], a.tile);
		mine = next[threadx];
		for (int t = 0; t < mine; t += a.tile) a.tiles[(first + t) / a.tile] = threadx;
	}
	sync_block();
	if (threadx < a.experts) next[threadx] = first;
	if (threadx == a.experts - 1) next[a.experts] = a.count[0] = first + ROUND_UP(mine, a.tile);
	sync_block();
	int all = next[a.experts];
	for (int i = threadx; i < all; i += 1024) a.sources[i] = -1;
	sync_block();
	for (int i = threadx; i < choices; i += 1024) {
		int slot = __nvvm_atom_add_gen_i(&next[a.chosen[i]], 1);
		a.slots[i] = slot;
		a.sources[slot] = i / a.topk;
	}
}

struct MixArgs {
	float *dst;
	const float *out; // [slots][cols]
	const int *slots;
	const float *weights;
	const int *step;
	int cols, topk;
};

// mix adds up the weighted results of a row's experts, in their order.
KERNEL(256) void mix(MixArgs a) {
	begin();
	int row = blockx;
	if (row >= a.step[STEP_ROWS]) return;
	enum { atOnce = 4 };
	for (int c = blocky * 256 + threadx; c < a.cols; c += gridy * 256) {
		float sum = 0;
		for (int k = 0; k < a.topk; k += atOnce) {
			float v[atOnce];
			UNROLL for (int j = 0; j < atOnce; j++) {
				int i = row * a.topk + least(k + j, a.topk - 1);
				v[j] = a.weights[i] * a.out[(u64)a.slots[i] * a.cols + c];
			}
			UNROLL for (int j = 0; j < atOnce; j++)
				if (k + j < a.topk) sum = sum + v[j];
		}
		a.dst[(u64)row * a.cols + c] = sum;
	}
}
