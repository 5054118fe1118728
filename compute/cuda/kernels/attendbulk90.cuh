// Attention with few query rows over a pool of bfloat16 numbers or of codes on Hopper, fed by
// bulk copies. The arithmetic is that of attend_few, but keys and columns of values are the left side of the tensor cores'
// products and queries the right side, which is half as large: most models have at most eight query heads for a head of keys.
#pragma once
#include "async90.cuh"
#include "attend.cuh"

// load_duo reads two words of shared memory.
FORCE duo load_duo(u32 at) {
	duo r;
	asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(at) : "memory");
	return r;
}

// left_side is 16 rows and 16 columns of codes, of which low has rows up to 8 and high the others.
template <int TYPE> FORCE quad left_side(u32 low, u32 high) {
	return {numbers_of(TYPE, low, 0), numbers_of(TYPE, high, 0), numbers_of(TYPE, low, 1), numbers_of(TYPE, high, 1)};
}

// weights_at is where softmax weights lie: pieces of 8 keys and 8 query rows, those of eight rows after the other.
FORCE u32 weights_at(int rows8, int keys8) { return rows8 * PARTITION * 16 + keys8 * 128; }

// A Span is what a stage of the ring has: keys or values of two tiles, of which the blocks from first to last are there.
#define SPAN (2 * KEYS)
struct Span {
	int position, first, last;
};

FORCE Span span_at(const Item &it, int p, int j) {
	int position = p * PARTITION + j * SPAN;
	int first = it.begin > position ? (it.begin - position) / BLOCK_TOKENS : 0;
	int last = least(SPAN / BLOCK_TOKENS, (it.limit - position + BLOCK_TOKENS - 1) / BLOCK_TOKENS);
	return {position, first, last};
}

// A Turn is a stage of the ring and how often the ring has been gone through.
template <int STAGES> struct Turn {
	int stage, parity;
	FORCE_MEMBER void next() {
		if (++stage == STAGES) stage = 0, parity ^= 1;
	}
};

// A lane of attend_bulk has two keys of a block, g and g + 8, and two queries of each eight, 2t and 2t + 1; then two columns
// of values in place of the keys.
template <int EIGHTS> struct FewState {
	Row row[2 * EIGHTS];
	float all[EIGHTS][4]; // what was united, of two columns and two queries
};

// put_bulk writes the results of an item, of which a warp has sixteen columns.
template <int EIGHTS> FORCE void put_bulk(const AttendArgs &a, const Item &it, int group, int head, const FewState<EIGHTS> &f) {
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, odd = g & 1, partial = it.fields[ITEM_PARTIAL];
	UNROLL for (int e = 0; e < EIGHTS; e++) {
		UNROLL for (int i = 0; i < 2; i++) {
			int qr = e * 8 + 2 * t + i;
			if (partial >= 0 && warp == 0 && g == 0 && qr < it.rows) put_state(a, it, qr, group, head, f.row[2 * e + i].all);
		}
		float inverse[2] = {1, 1};
		if (partial < 0) UNROLL for (int i = 0; i < 2; i++) inverse[i] = 1.0f / f.row[2 * e + i].all.sum;
		bool begun = odd ? f.row[2 * e + 1].begun : f.row[2 * e].begun;
		UNROLL for (int half = 0; half < 2; half++) {
			// Lanes of neighbouring columns exchange, so that each has two columns of one query.
			float v0 = f.all[e][2 * half] * inverse[0], v1 = f.all[e][2 * half + 1] * inverse[1];
			float other = shuffle_xor(odd ? v0 : v1, 4), mine = odd ? v1 : v0;
			int qr = e * 8 + 2 * t + odd;
			if (qr < it.rows && begun)
				put(a, it, qr, group, head, warp * 16 + half * 8 + g - odd, odd ? other : mine, odd ? mine : other);
		}
	}
}

// attend_bulk computes items of up to EIGHTS times 8 query rows: eight warps share the keys of a partition, and
// then the columns of the values. One warp more copies keys and values through a ring of STAGES, from
// item to item. A partition that ends before the step's tokens was written by steps
// before this one: it is copied while the kernel before still runs.
template <int D, int STAGES, int TYPE, int EIGHTS> FORCE void attend_bulk(const AttendArgs &a) {
	enum { warps = 8, coded = TYPE >= POOL_INT8, blockBytes = BLOCK_TOKENS * D * (coded ? 1 : 2) };
	enum { blocks = SPAN / BLOCK_TOKENS, stage = blocks * blockBytes, spans = PARTITION / SPAN };
	enum { weightsAt = EIGHTS * 8 * D * 2, ringAt = weightsAt + EIGHTS * PARTITION * 16 };
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	__shared__ __attribute__((aligned(16))) float tops[8 * EIGHTS][warps], sums[4][8 * EIGHTS][warps];
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, head = blocky;
	int group = a.queries / a.pool.heads, items = a.step[STEP_FEW_ITEMS], itemsAt = a.step[AT_FEW_ITEMS];
	start_next();
	if (blockx >= items) return wait_before();
	u32 ring = shared_address(memory + ringAt), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, warps);
	if (warp == warps) {
		bool waited = false;
		Turn<STAGES> turn = {0, 1}; // a stage that was never filled is free
		for (int index = blockx; index < items; index += gridx) {
			Item it = item_at(a, a.step + itemsAt + index * FEW_FIELDS, group, 16);
			for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
				int mine = 0, at = p * (PARTITION / BLOCK_TOKENS) + lane; // a lane's block of the partition
				if (lane < PARTITION / BLOCK_TOKENS && at * BLOCK_TOKENS < it.limit)
					mine = p == it.fields[ITEM_PARTITION] ? it.fields[ITEM_FIELDS + lane] : it.table[at];
				if (!waited && (a.window > 0 || (p + 1) * PARTITION > it.past)) {
					wait_before();
					waited = true;
				}
				for (int i = 0; i < 2 * spans; i++) {
					int values = i / spans, j = i % spans;
					Span span = span_at(it, p, j);
					if (span.first >= span.last) continue;
					u32 block;
					asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
						: "=r"(block) : "r"(mine), "r"(j * blocks + lane % blocks));
					barrier_wait(empty + 8 * turn.stage, turn.parity);
					u32 barrier = full + 8 * turn.stage;
					if (lane == 0) barrier_expect(barrier, (span.last - span.first) * blockBytes);
					sync_warp();
					if (lane >= span.first && lane < span.last) copy_bulk(ring + turn.stage * stage + lane * blockBytes,
						pool_part(a.pool, (int)block, a.layer, values, head), blockBytes, barrier);
					turn.next();
				}
			}
		}
		if (!waited) wait_before();
		return;
	}
	wait_before();
	Turn<STAGES> turn = {0, 0};
	const u8 *scalesAt = (const u8 *)(scales_of(a.pool, 0, a.layer, 0, head) + g);
	const u64 valuesBehind = a.pool.heads * a.pool.partBytes, blockStride = valuesBehind * 2 * a.pool.layers;
	auto sync = [&]() __attribute__((always_inline)) { sync_some(1, warps * 32); };
	// take waits for the next stage and returns where it is.
	auto take = [&]() __attribute__((always_inline)) {
		barrier_wait(full + 8 * turn.stage, turn.parity);
		return ring + turn.stage * stage;
	};
	auto give = [&]() __attribute__((always_inline)) {
		sync_warp();
		if (lane == 0) barrier_arrive(empty + 8 * turn.stage);
		turn.next();
	};
	// What a warp has of a span: block m of tile h.
	const int m = warp % 4, h = warp / 4, mine = h * 4 + m;
	for (int index = blockx; index < items; index += gridx) {
		Item it = item_at(a, a.step + itemsAt + index * FEW_FIELDS, group, 16);
		load_queries<D, 8 * EIGHTS>(a, it, 0, group, head, memory, threadx, warps * 32);
		sync();
		quad q[EIGHTS][D / 32];
		UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int k = 0; k < D / 32; k++)
			q[e][k] = load_matrices(shared_address(memory) + piece_at<D>(e, 4 * k) + lane * 16);
		FewState<EIGHTS> f;
		UNROLL for (int i = 0; i < 2 * EIGHTS; i++) f.row[i] = row_at(a, it, i / 2 * 8 + 2 * t + i % 2, group);
		// Scales of the lane's two keys of both spans and of their values. Those of a partition are asked for while the one
		// before it is being computed.
		u16 keyScales[2 * spans], valueScales[2 * spans];
		auto load_scales = [&](int p) __attribute__((always_inline)) {
			UNROLL for (int j = 0; j < spans; j++) {
				int at = p * PARTITION + j * SPAN + mine * BLOCK_TOKENS;
				bool there = at >= it.begin && at < it.limit;
				const u8 *block = scalesAt + (there ? it.table[at / BLOCK_TOKENS] : 0) * blockStride;
				UNROLL for (int i = 0; i < 2; i++) {
					keyScales[2 * j + i] = there ? ((const u16 *)block)[8 * i] : (u16)0;
					valueScales[2 * j + i] = there ? ((const u16 *)(block + valuesBehind))[8 * i] : (u16)0;
				}
			}
		};
		if (coded) load_scales(it.begin / PARTITION);
		for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
			bool whole = a.window <= 0 && (p + 1) * PARTITION <= it.past + 1; // all rows see all keys
			// of two spans: keys g and g + 8, each with two queries
			float s[EIGHTS][spans][4], top[2 * EIGHTS];
			UNROLL for (int i = 0; i < 2 * EIGHTS; i++) top[i] = -__builtin_inff();
			UNROLL for (int j = 0; j < spans; j++) {
				UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int i = 0; i < 4; i++) s[e][j][i] = -__builtin_inff();
				Span span = span_at(it, p, j);
				if (span.first >= span.last) continue;
				u32 keys = take() + mine * blockBytes;
				if (mine >= span.first && mine < span.last) {
					UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int i = 0; i < 4; i++) s[e][j][i] = 0;
					UNROLL for (int k = 0; k < D / 32; k++) {
						quad l[2];
						if constexpr (coded) {
							u32 at = keys + (k / 2 * 32 + lane) * 16 + k % 2 * 8;
							duo low = load_duo(at), high = load_duo(at + D / 64 * 512);
							l[0] = left_side<TYPE>(low.x, high.x), l[1] = left_side<TYPE>(low.y, high.y);
						} else {
							UNROLL for (int i = 0; i < 2; i++)
								l[i] = load_matrices(keys + piece_at<D>(lane / 8 % 2, 4 * k + 2 * i + lane / 16) + lane % 8 * 16);
						}
						UNROLL for (int e = 0; e < EIGHTS; e++) {
							multiply_numbers(s[e][j], l[0], q[e][k].x, q[e][k].y);
							multiply_numbers(s[e][j], l[1], q[e][k].z, q[e][k].w);
						}
					}
					UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int i = 0; i < 4; i++) {
						s[e][j][i] *= a.scale;
						if (coded) s[e][j][i] *= from_brain(keyScales[2 * j + i / 2]);
					}
					if (!whole) UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int i = 0; i < 4; i++) {
						int position = span.position + mine * BLOCK_TOKENS + g + i / 2 * 8;
						const Row &row = f.row[2 * e + i % 2];
						if (position > row.position || position < row.seen) s[e][j][i] = -__builtin_inff();
					}
				}
				give();
				UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int i = 0; i < 4; i++)
					top[2 * e + i % 2] = __builtin_fmaxf(top[2 * e + i % 2], s[e][j][i]);
			}
			UNROLL for (int i = 0; i < 2 * EIGHTS; i++) {
				UNROLL for (int lanes = 4; lanes < 32; lanes *= 2) top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], lanes));
				if (g == 0) tops[i / 2 * 8 + 2 * t + i % 2][warp] = top[i];
			}
			sync();
			float base[2 * EIGHTS], sum[2 * EIGHTS];
			UNROLL for (int i = 0; i < 2 * EIGHTS; i++) {
				const float *of = tops[i / 2 * 8 + 2 * t + i % 2];
				UNROLL for (int w = 0; w < warps; w++) top[i] = __builtin_fmaxf(top[i], of[w]);
				base[i] = base_of(top[i]) - WEIGHT_SHIFT;
				sum[i] = 0;
			}
			UNROLL for (int e = 0; e < EIGHTS; e++) {
				UNROLL for (int j = 0; j < spans; j++) UNROLL for (int i = 0; i < 4; i++)
					s[e][j][i] = exp2_fast(s[e][j][i] - base[2 * e + i % 2]);
				UNROLL for (int i = 0; i < 2; i++) {
					float part = (s[e][0][i] + s[e][0][i + 2]) + (s[e][1][i] + s[e][1][i + 2]);
					part += shuffle_xor(part, 4);
					if (g % 2 == 0) sums[g / 2][e * 8 + 2 * t + i][warp] = part;
				}
				UNROLL for (int j = 0; j < spans; j++) UNROLL for (int i = 0; i < 2; i++) {
					float v[2] = {s[e][j][2 * i], s[e][j][2 * i + 1]};
					// What lies behind the context may be anything.
					if (coded) UNROLL for (int n = 0; n < 2; n++) v[n] = v[n] == 0 ? 0 : v[n] * from_brain(valueScales[2 * j + i]);
					*(u32 *)(memory + weightsAt + weights_at(e, (j * blocks + mine) * 2 + i) + g * 16 + t * 4) = number_pair(v[0], v[1]);
				}
			}
			if (coded && (p + 1) * PARTITION < it.limit) load_scales(p + 1);
			sync();
			UNROLL for (int i = 0; i < 2 * EIGHTS; i++) {
				const float *of = sums[g / 2][i / 2 * 8 + 2 * t + i % 2];
				UNROLL for (int w = 0; w < warps; w++) sum[i] += of[w];
				sum[i] += shuffle_xor(sum[i], 8);
				sum[i] += shuffle_xor(sum[i], 16);
			}
			float out[EIGHTS][4];
			UNROLL for (int e = 0; e < EIGHTS; e++) UNROLL for (int i = 0; i < 4; i++) out[e][i] = 0;
			UNROLL for (int j = 0; j < spans; j++) {
				Span span = span_at(it, p, j);
				if (span.first >= span.last) continue;
				u32 values = take();
				int tokens = it.limit % BLOCK_TOKENS; // of the last block
				if (!coded && tokens > 0 && span.position + span.last * BLOCK_TOKENS > it.limit) {
					quad *pieces = (quad *)(memory + ringAt + turn.stage * stage + (span.last - 1) * blockBytes);
					for (int i = threadx; i < BLOCK_TOKENS * D / 8; i += warps * 32)
						if (i / D * 8 + i % 8 >= tokens) pieces[i] = {0, 0, 0, 0};
					share();
					sync();
				}
				UNROLL for (int k = 0; k < blocks; k += 2) {
					if (warp * 16 >= D) break;
					quad w[EIGHTS];
					UNROLL for (int e = 0; e < EIGHTS; e++)
						w[e] = load_matrices_turned(shared_address(memory + weightsAt) + weights_at(e, (j * blocks + k) * 2) + lane * 16);
					UNROLL for (int i = 0; i < 2; i++) {
						if (k + i < span.first || k + i >= span.last) continue;
						quad l;
						if constexpr (coded) {
							duo words = load_duo(values + (k + i) * blockBytes + (warp * 32 + lane) * 8);
							l = left_side<TYPE>(words.x, words.y);
						} else {
							l = load_matrices_turned(values + piece_at<D>(2 * (k + i) + lane / 16, 2 * warp + lane / 8 % 2) + lane % 8 * 16);
						}
						UNROLL for (int e = 0; e < EIGHTS; e++) multiply_numbers(out[e], l, i ? w[e].z : w[e].x, i ? w[e].w : w[e].y);
					}
				}
				give();
			}
			UNROLL for (int i = 0; i < 2 * EIGHTS; i++) {
				if (sum[i] == 0) continue;
				float left = 0, right = 1;
				State now = {top[i], sum[i]};
				bool again = f.row[i].begun;
				if (again) merge(&f.row[i].all, now, &left, &right);
				else f.row[i].all = now;
				f.row[i].begun = true;
				UNROLL for (int n = i % 2; n < 4; n += 2) {
					float &all = f.all[i / 2][n];
					all = again ? __builtin_fmaf(all, left, out[i / 2][n] * right) : out[i / 2][n];
				}
			}
		}
		if (warp * 16 < D) put_bulk<EIGHTS>(a, it, group, head, f);
	}
}

// The kernels of up to 8 and 16 query rows.
#define ATTEND_BULK(name, d, stages, type) \
	BOUNDED(288, 2) void name##_8(AttendArgs a) { attend_bulk<d, stages, type, 1>(a); } \
	BOUNDED(288, 2) void name##_16(AttendArgs a) { attend_bulk<d, stages, type, 2>(a); }
