// Attention over the key/value pool.
#pragma once
#include "pool.cuh"

// An item of attention is some query rows of one sequence over some partitions
// of its context. Query rows are counted token by token, in each the heads of a
// group one after the other.
enum ItemField {
	ITEM_ROW,       // the sequence's first row in the step
	ITEM_TOKENS,    // how many it has
	ITEM_PAST,      // the position of the first
	ITEM_TABLE,     // where its block table begins in the step
	ITEM_FIRST,     // the first query row
	ITEM_PARTITION, // the first partition of the context
	ITEM_LAST,      // and the one after the last
	ITEM_PARTIAL,   // where the result of the first query token goes; -1: it is complete
	ITEM_FIELDS
};

#define PARTITION 256
#define KEYS 32 // in shared memory at once

struct AttendArgs {
	float *dst;
	const float *q;
	float *partials, *states; // [partial][head][dim], and there greatest score and sum
	const int *step;
	Pool pool;
	int layer, queries, window;
	float scale; // times log2(e)
};

// A State is the softmax so far: greatest score and sum of weights.
struct State { float top, sum; };

// merge returns the factors of two parts of a softmax and unites their states.
FORCE void merge(State *all, State part, float *left, float *right) {
	float top = __builtin_fmaxf(all->top, part.top);
	*left = exp2_fast(all->top - top);
	*right = exp2_fast(part.top - top);
	all->sum = __builtin_fmaf(all->sum, *left, part.sum * *right);
	all->top = top;
}

// Where piece c (of 16 bytes) of a row lies in a tile of rows of D 16-bit numbers.
template <int D> FORCE u32 tile_at(int row, int c) { return row * D * 2 + ((c ^ (row & 7)) & 7 | c & ~7) * 16; }

// The blocks of 32 positions, of which those from end on do not exist.
struct Blocks { int first, second; };
FORCE Blocks blocks_at(const int *table, int position, int end) {
	Blocks b = {0, 0};
	if (position < end) b.first = table[position / BLOCK_TOKENS];
	b.second = b.first;
	if (position + BLOCK_TOKENS < end) b.second = table[position / BLOCK_TOKENS + 1];
	return b;
}

// load_tile brings the keys or values of 32 positions into shared memory as
// bfloat16. Positions from end on, and columns outside the head, are zero.
template <int D, int THREADS> FORCE void load_tile(const AttendArgs &a, Blocks blocks, int position, int end, int values, int head, u32 to, u8 *plain, float *scales) {
	const Pool &p = a.pool;
	const u8 *first = pool_part(p, blocks.first, a.layer, values, head), *second = pool_part(p, blocks.second, a.layer, values, head);
	if (p.type == POOL_BF16 && p.dim % 8 == 0) {
		UNROLL for (int i = 0; i < KEYS * D / 8 / THREADS; i++) {
			int at = i * THREADS + threadx, row = at / (D / 8), c = at % (D / 8);
			bool there = position + row < end && c * 8 < p.dim;
			const u8 *from = (row < BLOCK_TOKENS ? first : second) + (row % BLOCK_TOKENS * p.dim + (there ? c * 8 : 0)) * 2;
			copy_async(to + tile_at<D>(row, c), from, there ? 16 : 0);
		}
		return;
	}
	for (int at = threadx; at < KEYS * D; at += THREADS) {
		int row = at / D, c = at % D;
		u16 v = 0;
		if (position + row < end && c < p.dim) {
			const u8 *part = row < BLOCK_TOKENS ? first : second;
			int e = row % BLOCK_TOKENS * p.dim + c;
			switch (p.type) {
			case POOL_F32: v = brain_of(((const float *)part)[e]); break;
			case POOL_BF16: v = ((const u16 *)part)[e]; break;
			case POOL_INT8: v = brain_of((float)(s8)part[e]); break;
			default: v = brain_of_fp8(part[e]);
			}
		}
		*(u16 *)(plain + tile_at<D>(row, c / 8) + c % 8 * 2) = v;
	}
	if (p.type >= POOL_INT8 && threadx < KEYS) {
		const u8 *part = threadx < BLOCK_TOKENS ? first : second;
		u16 s = 0;
		if (position + threadx < end) s = ((const u16 *)(part + p.dim * BLOCK_TOKENS))[threadx % BLOCK_TOKENS];
		scales[threadx] = from_brain(s);
	}
}

// attend computes items: each warp has MT times 16 query rows, all warps share the keys
// and values of 32 positions at a time. A partition of 256 positions has its own
// softmax; partitions are united in their order.
template <int D, int WARPS, int STAGES, int MT> FORCE void attend(const AttendArgs &a, int countField, int atField) {
	enum { threads = WARPS * 32, queries = MT * 16, tile = KEYS * D * 2, stage = 2 * tile + 2 * KEYS * 4 };
	extern __shared__ __attribute__((aligned(128))) u8 memory[]; // queries, then stages of keys and values
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, head = blocky, dim = a.pool.dim;
	int group = a.queries / a.pool.heads;
	u8 *mine = memory + warp * queries * D * 2, *stages = memory + WARPS * queries * D * 2;
	for (int index = blockx; index < a.step[countField]; index += gridx) {
		const int *item = a.step + a.step[atField] + index * ITEM_FIELDS;
		const int *table = a.step + item[ITEM_TABLE];
		int rows = item[ITEM_TOKENS] * group, first = item[ITEM_FIRST] + warp * queries, past = item[ITEM_PAST];
		int blockFirst = item[ITEM_FIRST] / group, blockLast = least(item[ITEM_FIRST] + WARPS * queries, rows) - 1;
		int lastPosition = past + blockLast / group, end = past + item[ITEM_TOKENS];
		int begin = item[ITEM_PARTITION] * PARTITION, stop = least(item[ITEM_LAST] * PARTITION, lastPosition + 1);
		if (a.window > 0) {
			int least_seen = past + blockFirst - a.window + 1;
			if (least_seen > begin) begin = least_seen / KEYS * KEYS;
		}
		// the queries
		for (int at = lane; at < queries * D / 8; at += 32) {
			int r = at / (D / 8), c = at % (D / 8) * 8, qr = first + r;
			float v[8];
			const float *q = a.q + ((u64)(item[ITEM_ROW] + least(qr, rows - 1) / group) * a.queries + head * group + least(qr, rows - 1) % group) * dim + c;
			UNROLL for (int i = 0; i < 8; i++) v[i] = qr < rows && c + i < dim ? q[i] : 0;
			*(quad *)(mine + tile_at<D>(r, c / 8)) = {brain_pair(v[0], v[1]), brain_pair(v[2], v[3]), brain_pair(v[4], v[5]), brain_pair(v[6], v[7])};
		}
		// positions of the query rows of this lane, and the first that each sees
		int position[2 * MT], seen[2 * MT];
		UNROLL for (int i = 0; i < 2 * MT; i++) {
			int qr = first + g + 8 * i;
			position[i] = qr < rows ? past + qr / group : -1;
			seen[i] = a.window > 0 ? position[i] - a.window + 1 : 0;
		}
		int warpFirst = past + first / group, warpLast = past + (least(first + queries, rows) - 1) / group;
		if (first >= rows) warpLast = -1;
		State all[2 * MT];
		bool begun[2 * MT];
		UNROLL for (int i = 0; i < 2 * MT; i++) begun[i] = false, all[i] = {0, 0};
		int limit = least(end, stop);
		auto load = [&](int pos, Blocks blocks) __attribute__((always_inline)) {
			u8 *to = stages + pos / KEYS % STAGES * stage;
			load_tile<D, threads>(a, blocks, pos, limit, 0, head, shared_address(to), to, (float *)(to + 2 * tile));
			load_tile<D, threads>(a, blocks, pos, limit, 1, head, shared_address(to + tile), to + tile, (float *)(to + 2 * tile) + KEYS);
		};
		Blocks ahead[STAGES]; // of the tiles to be loaded first, then of the next
		UNROLL for (int i = 0; i < STAGES; i++) ahead[i] = blocks_at(table, begin + i * KEYS, limit);
		sync_warp();
		UNROLL for (int i = 0; i < STAGES - 1; i++) {
			if (begin + i * KEYS < stop) load(begin + i * KEYS, ahead[i]);
			copy_commit();
		}
		Blocks next = ahead[STAGES - 1];
		float out[MT][D / 8][4];
		float partSums[2 * MT];
		State part[2 * MT];
		for (int pos = begin; pos < stop; pos += KEYS) {
			if (pos == begin || pos % PARTITION == 0) {
				UNROLL for (int m = 0; m < MT; m++)
					UNROLL for (int n = 0; n < D / 8; n++) UNROLL for (int i = 0; i < 4; i++) out[m][n][i] = 0;
				UNROLL for (int i = 0; i < 2 * MT; i++) partSums[i] = 0, part[i].top = -__builtin_inff();
			}
			sync_block(); // the stage of the tile before is free
			if (pos + (STAGES - 1) * KEYS < stop) load(pos + (STAGES - 1) * KEYS, next);
			copy_commit();
			next = blocks_at(table, pos + STAGES * KEYS, limit);
			copy_wait<STAGES - 1>();
			sync_block();
			const u8 *at = stages + pos / KEYS % STAGES * stage;
			u32 keys = shared_address(at), values = shared_address(at + tile);
			const float *keyScales = (const float *)(at + 2 * tile), *valueScales = keyScales + KEYS;
			if (pos <= warpLast && (a.window <= 0 || pos + KEYS > warpFirst - a.window + 1)) {
				float s[MT][KEYS / 8][4] = {};
				UNROLL for (int k = 0; k < D / 16; k++) {
					quad q[MT];
					UNROLL for (int m = 0; m < MT; m++)
						q[m] = load_matrices(shared_address(mine) + tile_at<D>(m * 16 + lane % 16, 2 * k + lane / 16));
					UNROLL for (int n = 0; n < KEYS / 16; n++) {
						quad b = load_matrices(keys + tile_at<D>(n * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
						UNROLL for (int m = 0; m < MT; m++) {
							multiply_brain(s[m][2 * n], q[m], b.x, b.y);
							multiply_brain(s[m][2 * n + 1], q[m], b.z, b.w);
						}
					}
				}
				UNROLL for (int m = 0; m < MT; m++) {
					float top[2] = {part[2 * m].top, part[2 * m + 1].top}, base[2], shrink[2];
					UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int i = 0; i < 4; i++) {
						int key = n * 8 + 2 * t + i % 2;
						float v = s[m][n][i] * a.scale;
						if (a.pool.type >= POOL_INT8) v *= keyScales[key];
						s[m][n][i] = pos + key <= position[2 * m + i / 2] && pos + key >= seen[2 * m + i / 2] ? v : -__builtin_inff();
						top[i / 2] = __builtin_fmaxf(top[i / 2], s[m][n][i]);
					}
					UNROLL for (int i = 0; i < 2; i++) {
						top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 1));
						top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 2));
						base[i] = top[i] == -__builtin_inff() ? 0 : top[i];
						shrink[i] = exp2_fast(part[2 * m + i].top - base[i]);
						part[2 * m + i].top = top[i];
						partSums[2 * m + i] *= shrink[i];
					}
					UNROLL for (int n = 0; n < D / 8; n++) {
						out[m][n][0] *= shrink[0], out[m][n][1] *= shrink[0];
						out[m][n][2] *= shrink[1], out[m][n][3] *= shrink[1];
					}
					UNROLL for (int n = 0; n < KEYS / 8; n++) UNROLL for (int i = 0; i < 4; i++) {
						s[m][n][i] = exp2_fast(s[m][n][i] - base[i / 2]);
						partSums[2 * m + i / 2] += s[m][n][i];
						if (a.pool.type >= POOL_INT8) s[m][n][i] *= valueScales[n * 8 + 2 * t + i % 2];
					}
				}
				UNROLL for (int k = 0; k < KEYS / 16; k++) {
					quad p[MT];
					UNROLL for (int m = 0; m < MT; m++)
						p[m] = {brain_pair(s[m][2 * k][0], s[m][2 * k][1]), brain_pair(s[m][2 * k][2], s[m][2 * k][3]),
							brain_pair(s[m][2 * k + 1][0], s[m][2 * k + 1][1]), brain_pair(s[m][2 * k + 1][2], s[m][2 * k + 1][3])};
					UNROLL for (int n = 0; n < D / 16; n++) {
						quad b = load_matrices_turned(values + tile_at<D>(k * 16 + lane % 16, 2 * n + lane / 16));
						UNROLL for (int m = 0; m < MT; m++) {
							multiply_brain(out[m][2 * n], p[m], b.x, b.y);
							multiply_brain(out[m][2 * n + 1], p[m], b.z, b.w);
						}
					}
				}
			}
			bool ends = pos + KEYS >= stop || (pos + KEYS) % PARTITION == 0;
			if (!ends) continue;
			// unite the partition with those before it
			UNROLL for (int i = 0; i < 2 * MT; i++) {
				int qr = first + g + 8 * i;
				float sum = partSums[i] + shuffle_xor(partSums[i], 1);
				sum = sum + shuffle_xor(sum, 2);
				part[i].sum = sum;
				if (qr >= rows) continue;
				int token = qr / group, h = head * group + qr % group;
				u64 index = (u64)(item[ITEM_ROW] + token) * a.queries + h;
				float *to = a.dst + index * dim;
				if (item[ITEM_PARTIAL] >= 0) {
					index = (u64)(item[ITEM_PARTIAL] + token) * a.queries + h;
					to = a.partials + index * dim;
					if (t == 0) a.states[2 * index] = part[i].top, a.states[2 * index + 1] = sum;
				} else if (sum == 0) {
					continue;
				}
				bool complete = item[ITEM_PARTIAL] < 0 && pos + KEYS > position[i];
				float left = 0, right = 1;
				if (begun[i]) merge(&all[i], part[i], &left, &right);
				else all[i] = part[i];
				float inverse = complete ? 1.0f / all[i].sum : 1.0f;
				UNROLL for (int n = 0; n < D / 8; n++) UNROLL for (int j = 0; j < 2; j++) {
					int c = n * 8 + 2 * t + j;
					if (c >= dim) continue;
					float v = out[i / 2][n][i % 2 * 2 + j];
					if (begun[i]) v = __builtin_fmaf(to[c], left, v * right);
					to[c] = complete ? v * inverse : v;
				}
				begun[i] = true;
			}
		}
		if (begin >= stop && item[ITEM_PARTIAL] >= 0 && t == 0) { // a window ends before the partition
			UNROLL for (int i = 0; i < 2 * MT; i++) {
				int qr = first + g + 8 * i;
				u64 index = (u64)(item[ITEM_PARTIAL] + qr / group) * a.queries + head * group + qr % group;
				if (qr < rows) a.states[2 * index + 1] = 0;
			}
		}
		copy_wait<0>();
		sync_block();
	}
}

#define ATTEND(d, mt) \
	KERNEL(32) void attend_few_##d(AttendArgs a) { begin(); attend<d, 1, 4, 1>(a, STEP_FEW_ITEMS, AT_FEW_ITEMS); } \
	KERNEL(128) void attend_many_##d(AttendArgs a) { begin(); attend<d, 4, 2, mt>(a, STEP_MANY_ITEMS, AT_MANY_ITEMS); }
