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
	if (exact > SCALE_MAX) exact = SCALE_MAX;
	u32 bits = bits_of(exact);
	u16 scale = (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	if (exact != exact) scale = (u16)(bits >> 16 | 0x40);
	if (from_brain(scale) < exact) scale++;
	*inverse = 1.0f / from_brain(scale);
	return scale;
}

FORCE u8 code_int8(float v) {
	return (u8)bits_of(__builtin_fminf(__builtin_fmaxf(v, -127.0f), 127.0f) + 12582912.0f);
}

// A Head is what one of the lanes side by side that share a head has of it: four pairs of columns. Pairs are turned
// together: columns of both halves, or neighbours.
struct Head {
	enum { pairs = 4, count = 2 * pairs };
	float v[count]; // pair by pair
	int at[count];  // their columns, -1 for none
	bool whole, split; // columns lie in fours; the second four are those of the other half

	FORCE_MEMBER Head(const RopeArgs &a, int lane) {
		int dim = a.pool.dim;
		whole = dim % 8 == 0 && a.half % pairs == 0 && lane * count < dim;
		split = lane * pairs < a.half && !a.interleaved;
		UNROLL for (int i = 0; i < pairs; i++) {
			int pair = lane * pairs + i;
			bool apart = pair < a.half && !a.interleaved, there = pair < dim / 2;
			at[2 * i] = !there ? -1 : apart ? pair : 2 * pair;
			at[2 * i + 1] = !there ? -1 : apart ? pair + a.half : 2 * pair + 1;
		}
	}

	// four is number i in the order of columns: four from at[0] on, four from second() on.
	FORCE_MEMBER float four(int i) const { return split ? v[i % 4 * 2 + i / 4] : v[i]; }
	FORCE_MEMBER int second() const { return split ? at[1] : at[4]; }

	FORCE_MEMBER void load(float *to, const float *from) const {
		if (!whole) {
			UNROLL for (int i = 0; i < count; i++) to[i] = at[i] < 0 ? 0 : from[at[i]];
			return;
		}
		quad a = *(const quad *)(from + at[0]), b = *(const quad *)(from + second());
		u32 all[count] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
		UNROLL for (int i = 0; i < count; i++) to[i] = float_of(split ? all[i / 2 + i % 2 * 4] : all[i]);
	}

	FORCE_MEMBER void store(float *to) const {
		if (whole) {
			*(quad *)(to + at[0]) = {bits_of(four(0)), bits_of(four(1)), bits_of(four(2)), bits_of(four(3))};
			*(quad *)(to + second()) = {bits_of(four(4)), bits_of(four(5)), bits_of(four(6)), bits_of(four(7))};
			return;
		}
		UNROLL for (int i = 0; i < count; i++)
			if (at[i] >= 0) to[at[i]] = v[i];
	}

	// keep stores the numbers of a token in the pool; codes are those of the numbers times inverse.
	FORCE_MEMBER void keep(const Pool &p, u8 *part, int values, int token, float inverse) const {
		if (whole && in_pieces(p)) {
			u16 *to = (u16 *)part;
			*(duo *)(to + element_at(p, values, token, at[0])) = {brain_pair(four(0), four(1)), brain_pair(four(2), four(3))};
			*(duo *)(to + element_at(p, values, token, second())) = {brain_pair(four(4), four(5)), brain_pair(four(6), four(7))};
			return;
		}
		UNROLL for (int i = 0; i < count; i++) {
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
};

// turn_heads norms and turns queries and keys of a row and keeps keys and values: queries come first, then keys, then
// values. Eight, 16 or 32 lanes have a head.
FORCE void turn_heads(const RopeArgs &a, int row, int block, int token) {
	const bool coded = a.pool.type >= POOL_INT8;
	int dim = a.pool.dim, kv = a.pool.heads, heads = a.queries + 2 * kv;
	int lanes = dim <= 64 ? 8 : dim <= 128 ? 16 : 32, lane = threadx % lanes, side = 256 / lanes;
	const float *turns = a.angles + ((u64)row * a.stride + lane * Head::pairs) * 2;
	Head x(a, lane);
	float angle[Head::count];
	if (x.whole && lane * Head::pairs < a.half && a.stride % 2 == 0) {
		quad l = ((const quad *)turns)[0], r = ((const quad *)turns)[1];
		u32 all[Head::count] = {l.x, l.y, l.z, l.w, r.x, r.y, r.z, r.w};
		UNROLL for (int i = 0; i < Head::count; i++) angle[i] = float_of(all[i]);
	} else {
		UNROLL for (int i = 0; i < Head::count; i++) angle[i] = lane * Head::pairs + i / 2 < a.half ? turns[i] : 0;
	}
	for (int first = blocky * side; first < heads; first += gridy * side) {
		// Lanes without a head follow the others of their warp, which exchange numbers.
		bool mine = first + threadx / lanes < heads;
		int head = least(first + threadx / lanes, heads - 1), what = head < a.queries ? 0 : head < a.queries + kv ? 1 : 2;
		int h = what == 0 ? head : what == 1 ? head - a.queries : head - a.queries - kv;
		float *at = (what == 0 ? a.q + (u64)row * a.queries * dim : (what == 1 ? a.k : a.v) + (u64)row * kv * dim) + h * dim;
		const float *w = what == 0 ? a.qnorm : what == 1 ? a.knorm : 0;
		float factors[Head::count] = {}, inverse = 1;
		x.load(x.v, at);
		if (w) x.load(factors, w);
		if (a.qnorm || a.knorm) {
			float sum = 0;
			UNROLL for (int i = 0; i < Head::count; i++) sum = __builtin_fmaf(x.v[i], x.v[i], sum);
			for (int i = lanes / 2; i > 0; i >>= 1) sum += shuffle_xor(sum, i);
			inverse = 1.0f / __builtin_sqrtf(sum / (float)dim + a.eps);
		}
		if (w) {
			UNROLL for (int i = 0; i < Head::count; i++) x.v[i] = x.v[i] * inverse * (factors[i] + a.offset);
		}
		UNROLL for (int i = 0; i < Head::pairs; i++) {
			if (what == 2 || lane * Head::pairs + i >= a.half) continue;
			float c = angle[2 * i], s = angle[2 * i + 1], l = x.v[2 * i], r = x.v[2 * i + 1];
			x.v[2 * i] = l * c - r * s;
			x.v[2 * i + 1] = r * c + l * s;
		}
		u16 scale = 0;
		if (coded) {
			u32 top = 0;
			UNROLL for (int i = 0; i < Head::count; i++) {
				u32 b = bits_of(x.v[i]) & 0x7fffffff;
				top = b > top ? b : top;
			}
			for (int i = 1; i < lanes; i *= 2) {
				u32 o = shuffle_xor(top, i);
				top = o > top ? o : top;
			}
			scale = code_scale(a.pool.type, float_of(top), &inverse);
		}
		if (!mine) continue;
		if (what < 2) x.store(at);
		if (what == 0) continue;
		x.keep(a.pool, pool_part(a.pool, block, a.layer, what - 1, h), what - 1, token, inverse);
		if (coded && lane == 0) scales_of(a.pool, block, a.layer, what - 1, h)[token] = scale;
	}
}

KERNEL(256) void rope_store(RopeArgs a) {
	start_next();
	int row = blockx;
	bool there = row < a.step[STEP_ROWS];
	int slot = there ? a.step[a.step[AT_SLOTS] + row] : 0, block = slot / BLOCK_TOKENS, token = slot % BLOCK_TOKENS;
	wait_before();
	if (!there) return;
	turn_heads(a, row, block, token);
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
