// Rotary encoding, storing into the key/value pool, and the union of what
// attention found in the partitions of a context.
#include "attend.cuh"
#include "packed.cuh"

struct AngleArgs {
	float *angles; // [ropes][rows][half] pairs of cosine and sine
	const int *step;
	int ropes, rows, half; // of the memory
};

// The sine and cosine of a number up to some millions, to the precision of float32:
// reduced by multiples of pi/2 in three parts, then polynomials in double.
FORCE void sine_cosine(double x, double *sine, double *cosine) {
	double n = __builtin_rint(x * 0.63661977236758134308);
	double r = __builtin_fma(n, -1.57079632679489655800e+00, x);
	r = __builtin_fma(n, -6.12323399573676603587e-17, r);
	double z = r * r;
	double s = 1.58969099521155010221e-10;
	s = __builtin_fma(s, z, -2.50507602534068634195e-08);
	s = __builtin_fma(s, z, 2.75573137070700676789e-06);
	s = __builtin_fma(s, z, -1.98412698298579493134e-04);
	s = __builtin_fma(s, z, 8.33333333332248946124e-03);
	s = __builtin_fma(s, z, -1.66666666666666324348e-01);
	s = __builtin_fma(s * z, r, r);
	double c = -1.13596475577881948265e-11;
	c = __builtin_fma(c, z, 2.08757232129817482790e-09);
	c = __builtin_fma(c, z, -2.75573143513906633035e-07);
	c = __builtin_fma(c, z, 2.48015872894767294178e-05);
	c = __builtin_fma(c, z, -1.38888888888741095749e-03);
	c = __builtin_fma(c, z, 4.16666666666666019037e-02);
	c = __builtin_fma(c, z, -0.5);
	c = __builtin_fma(c, z, 1.0);
	int quarter = (int)(long long)n & 3;
	double a = quarter & 1 ? c : s, b = quarter & 1 ? s : c;
	*sine = quarter & 2 ? -a : a;
	*cosine = (quarter + 1) & 2 ? -b : b;
}

// angles computes the rotations of a row, which all layers use. In the step, a
// rope is the number of its frequencies, its scale, and where they begin.
KERNEL(128) void angles(AngleArgs a) {
	begin();
	int row = blockx;
	if (row >= a.step[STEP_ROWS]) return;
	const int *rope = a.step + a.step[AT_ROPES] + blocky * 3;
	float scale = float_of((u32)rope[1]), position = (float)a.step[a.step[AT_POSITIONS] + row];
	const float *frequencies = (const float *)(a.step + rope[2]);
	float *out = a.angles + ((u64)blocky * a.rows + row) * a.half * 2;
	for (int i = threadx; i < rope[0]; i += 128) {
		double s, c;
		sine_cosine((double)(position * frequencies[i]), &s, &c);
		out[2 * i] = (float)c * scale;
		out[2 * i + 1] = (float)s * scale;
	}
}

struct RopeArgs {
	float *q, *k, *v;
	const float *qnorm, *knorm, *angles; // angles of the rope
	const int *step;
	Pool pool;
	int queries, layer, half, stride, interleaved; // stride: of angles, in pairs
	float eps, offset;
};


// The scale of eight-bit codes, as it is kept, and what turns numbers into codes.
FORCE u16 code_scale(int type, float top, float *inverse) {
	*inverse = 0;
	if (top < 1e-30f) return 0;
	float exact = top / (type == POOL_FP8 ? 448.0f : 127.0f);
	u32 bits = bits_of(exact);
	u16 scale = (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	if (exact != exact) scale = (u16)(bits >> 16 | 0x40);
	if (from_brain(scale) < exact) scale++;
	*inverse = 1.0f / from_brain(scale);
	return scale;
}

FORCE u8 code_int8(float v) { return (u8)bits_of(v + 12582912.0f); }

// keep stores the numbers of one head and token, lane by lane; at[i] are their columns.
template <int PAIRS> FORCE void keep(const Pool &p, u8 *part, u16 *scales, int values, int token, const float *v, const int *at, int lane) {
	u32 top = 0;
	UNROLL for (int i = 0; i < 2 * PAIRS; i++) {
		u32 b = at[i] < 0 ? 0 : bits_of(v[i]) & 0x7fffffff;
		top = b > top ? b : top;
	}
	float inverse = 1;
	if (p.type == POOL_INT8 || p.type == POOL_FP8) {
		u16 scale = code_scale(p.type, float_of(warp_max(top)), &inverse);
		if (lane == 0) scales[token] = scale;
	}
	UNROLL for (int i = 0; i < 2 * PAIRS; i++) {
		if (at[i] < 0) continue;
		int e = element_at(p, values, token, at[i]);
		switch (p.type) {
		case POOL_F32: ((float *)part)[e] = v[i]; break;
		case POOL_BF16: ((u16 *)part)[e] = brain_of(v[i]); break;
		case POOL_INT8: part[e] = code_int8(v[i] * inverse); break;
		default: part[e] = code_fp8(v[i] * inverse);
		}
	}
}

// turn loads a head of a row, normed and turned, lane by lane: queries come first, then
// keys, then values. at are the columns of v, -1 for none. It returns where the head lies.
template <int PAIRS> FORCE float *turn(const RopeArgs &a, int row, int head, float *v, int *at) {
	int lane = threadx % 32, dim = a.pool.dim, kv = a.pool.heads;
	int what = head < a.queries ? 0 : head < a.queries + kv ? 1 : 2;
	int h = what == 0 ? head : what == 1 ? head - a.queries : head - a.queries - kv;
	float *x = (what == 0 ? a.q + (u64)row * a.queries * dim : (what == 1 ? a.k : a.v) + (u64)row * kv * dim) + h * dim;
	const float *w = what == 0 ? a.qnorm : what == 1 ? a.knorm : 0, *turns = a.angles + (u64)row * a.stride * 2;
	float factors[2 * PAIRS], angle[2 * PAIRS];
	UNROLL for (int i = 0; i < PAIRS; i++) { // all that is needed is loaded before anything is waited for
		int pair = lane + 32 * i, first = 2 * pair, second = 2 * pair + 1;
		if (pair < a.half && !a.interleaved) first = pair, second = pair + a.half;
		bool there = pair < dim / 2, turned = there && what < 2 && pair < a.half;
		at[2 * i] = there ? first : -1;
		at[2 * i + 1] = there ? second : -1;
		v[2 * i] = there ? x[first] : 0;
		v[2 * i + 1] = there ? x[second] : 0;
		factors[2 * i] = there && w ? w[first] : 0;
		factors[2 * i + 1] = there && w ? w[second] : 0;
		angle[2 * i] = turned ? turns[2 * pair] : 1;
		angle[2 * i + 1] = turned ? turns[2 * pair + 1] : 0;
	}
	if (w) {
		float sum = 0;
		UNROLL for (int i = 0; i < 2 * PAIRS; i++) sum = __builtin_fmaf(v[i], v[i], sum);
		float inverse = 1.0f / __builtin_sqrtf(warp_sum(sum) / (float)dim + a.eps);
		UNROLL for (int i = 0; i < 2 * PAIRS; i++)
			if (at[i] >= 0) v[i] = v[i] * inverse * (factors[i] + a.offset);
	}
	UNROLL for (int i = 0; i < PAIRS; i++) {
		int pair = lane + 32 * i;
		if (what == 2 || pair >= dim / 2 || pair >= a.half) continue;
		float c = angle[2 * i], s = angle[2 * i + 1], l = v[2 * i], r = v[2 * i + 1];
		v[2 * i] = l * c - r * s;
		v[2 * i + 1] = r * c + l * s;
	}
	return x;
}

// turn_heads norms and turns queries and keys of a row and keeps keys and values: one
// warp for each head, of which each lane has PAIRS pairs of columns.
template <int PAIRS> FORCE void turn_heads(const RopeArgs &a, int row, int block, int token) {
	int kv = a.pool.heads;
	for (int head = blocky * 8 + threadx / 32; head < a.queries + 2 * kv; head += gridy * 8) {
		float v[2 * PAIRS];
		int at[2 * PAIRS];
		float *x = turn<PAIRS>(a, row, head, v, at);
		if (head < a.queries + kv) {
			UNROLL for (int i = 0; i < 2 * PAIRS; i++)
				if (at[i] >= 0) x[at[i]] = v[i];
		}
		int part = head - a.queries; // keys, then values
		if (part < 0) continue;
		u8 *to = pool_part(a.pool, block, a.layer, part / kv, part % kv);
		u16 *scales = scales_of(a.pool, block, a.layer, part / kv, part % kv);
		keep<PAIRS>(a.pool, to, scales, part / kv, token, v, at, threadx % 32);
	}
}

KERNEL(256) void rope_store(RopeArgs a) {
	start_next();
	int row = blockx;
	bool there = row < a.step[STEP_ROWS];
	int slot = there ? a.step[a.step[AT_SLOTS] + row] : 0, block = slot / BLOCK_TOKENS, token = slot % BLOCK_TOKENS;
	wait_before();
	if (!there) return;
	if (a.pool.dim <= 128) turn_heads<2>(a, row, block, token);
	else turn_heads<4>(a, row, block, token); // heads are at most 256 wide
}

struct CombineArgs {
	float *dst;
	const float *partials, *states;
	quad *packed; // bfloat16, if not null
	Codes codes;  // if not null
	const int *step;
	int queries, dim, rowTiles;
};

// A Union is a row of few query rows, and where its partial results are; none
// if attend has completed it.
struct Union { int row, first, stride, count; };

// unite sets v to eight columns of a head of a row, united as attend does it.
FORCE void unite(const CombineArgs &a, const Union &c, int head, int at, float *v) {
	State all = {0, 0};
	bool begun = false;
	enum { atOnce = 4 };
	bool whole = a.dim % 8 == 0;
	for (int i = 0; i < c.count; i += atOnce) {
		State part[atOnce];
		float next[atOnce][8], left, right;
		UNROLL for (int k = 0; k < atOnce; k++) {
			u64 index = (u64)(c.first + least(i + k, c.count - 1) * c.stride) * a.queries + head;
			part[k] = {a.states[2 * index], a.states[2 * index + 1]};
			const float *from = a.partials + index * a.dim + at;
			if (whole) {
				quad x = ((const quad *)from)[0], y = ((const quad *)from)[1];
				next[k][0] = float_of(x.x), next[k][1] = float_of(x.y), next[k][2] = float_of(x.z), next[k][3] = float_of(x.w);
				next[k][4] = float_of(y.x), next[k][5] = float_of(y.y), next[k][6] = float_of(y.z), next[k][7] = float_of(y.w);
			} else {
				UNROLL for (int j = 0; j < 8; j++) next[k][j] = at + j < a.dim ? from[j] : 0;
			}
		}
		UNROLL for (int k = 0; k < atOnce; k++) {
			if (i + k >= c.count || part[k].sum == 0) continue;
			if (begun) {
				merge(&all, part[k], &left, &right);
				UNROLL for (int j = 0; j < 8; j++) v[j] = __builtin_fmaf(v[j], left, next[k][j] * right);
			} else {
				all = part[k];
				UNROLL for (int j = 0; j < 8; j++) v[j] = next[k][j];
			}
			begun = true;
		}
	}
	float inverse = 1.0f / all.sum;
	UNROLL for (int j = 0; j < 8; j++) v[j] = v[j] * inverse;
}

// combine unites the partial results of a row and packs it for the next product: a
// thread for eight columns of a head. Rows are packed if all columns are whole pieces.
KERNEL(128) void combine(CombineArgs a) {
	start_next();
	bool there = blockx < a.step[STEP_COMBINES];
	Union c = {0, 0, 0, 0};
	if (there) c = ((const Union *)(a.step + a.step[AT_COMBINES]))[blockx];
	int eights = (a.dim + 7) / 8, piece = blocky * 128 + threadx, head = piece / eights, at = piece % eights * 8;
	int row = c.row;
	float v[8] = {};
	wait_before();
	if (!there) return;
	if (c.count == 0) {
		if (!a.codes.packed) return;
		if (head < a.queries) UNROLL for (int i = 0; i < 8; i++) v[i] = a.dst[((u64)row * a.queries + head) * a.dim + at + i];
		put_codes(a.codes, row, piece, v, head < a.queries);
		return;
	}
	if (head < a.queries) unite(a, c, head, at, v);
	if (a.codes.packed) put_codes(a.codes, row, piece, v, head < a.queries);
	if (head >= a.queries) return;
	if (a.packed) a.packed[piece_of(row, a.rowTiles, piece)] = pack_eight(v, 0);
	if (!a.dst) return;
	float *to = a.dst + ((u64)row * a.queries + head) * a.dim + at;
	UNROLL for (int i = 0; i < 8; i++)
		if (at + i < a.dim) to[i] = v[i];
}
