// Attention over the key/value pool.
#pragma once
#include "packed.cuh"
#include "pool.cuh"

// An item of attention is some query rows of one sequence over some partitions
// of its context. Query rows are counted token by token, in each the heads of a
// group one after the other. Sequences next to each other in the step that share leading
// partitions are one sequence to the items of these, whose tokens all see them whole.
enum ItemField {
	ITEM_ROW,       // the sequence's first row in the step
	ITEM_TOKENS,    // how many it has
	ITEM_PAST,      // the position of the first
	ITEM_TABLE,     // where its block table begins in the step
	ITEM_FIRST,     // the first query row
	ITEM_PARTITION, // the first partition of the context
	ITEM_LAST,      // and the one after the last
	ITEM_PARTIAL,   // where the result of the first query token goes; -1: it is complete
	ITEM_FIELDS,
	// Those of few query rows also have the blocks of their first partition.
	FEW_FIELDS = ITEM_FIELDS + 16
};

#define PARTITION 256
#define KEYS 64 // positions of a tile
#define TILES (PARTITION / KEYS)

struct AttendArgs {
	float *dst;
	const float *q;
	float *partials, *states; // [partial][head][dim], and there greatest score and sum
	const int *step;
	Pool pool;
	int layer, queries, window;
	float scale; // times log2(e)
	quad *packed; // bfloat16 of rows that are completed, if not null
	int rowTiles;
};

// A State is the softmax so far: greatest score and sum of weights.
struct State { float top, sum; };

// base_of is what is taken off scores whose greatest is top: minus infinity if there is none.
FORCE float base_of(float top) { return top == -__builtin_inff() ? 0 : top; }

// merge returns the factors of two parts of a softmax and unites their states.
FORCE void merge(State *all, State part, float *left, float *right) {
	float top = __builtin_fmaxf(all->top, part.top), base = base_of(top);
	*left = exp2_fast(all->top - base);
	*right = exp2_fast(part.top - base);
	all->sum = __builtin_fmaf(all->sum, *left, part.sum * *right);
	all->top = top;
}

// Rows of D numbers in shared memory are pieces of 8 rows and 8 columns: all
// columns of 8 rows, then of the next 8.
template <int D> FORCE u32 piece_at(int rows8, int columns8) { return rows8 * D * 16 + columns8 * 128; }

// An Item is what a block of threads computes, and the first and last position it looks at.
struct Item {
	const int *fields, *table;
	int rows;        // query rows of the sequence
	int past, limit; // positions from limit on are not looked at
	int begin;       // of the first tile
};

// share lets warpgroup instructions see what a thread wrote, after a barrier.
FORCE void share() {
#if __CUDA_ARCH__ >= 900
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Scales of codes lie in shared memory for two partitions: those of keys, then those of values, which come with
// the keys since weights are multiplied with them. Of a tile, thread after thread has one of a key, then of a value.
#define SCALES (4 * PARTITION)
FORCE int scale_index(int thread) { return thread / KEYS * 2 * PARTITION + thread % KEYS; }
FORCE u16 scale_at(const AttendArgs &a, const Item &it, int head, int pos, int thread) {
	int at = pos + thread % KEYS;
	if (at < it.begin || at >= it.limit) return 0;
	return scales_of(a.pool, it.table[at / BLOCK_TOKENS], a.layer, thread / KEYS, head)[at % BLOCK_TOKENS];
}

// A CodeTile is what a thread of THREADS has of a tile of codes that lie in lanes, on their way to shared
// memory as pieces of 16-bit numbers.
template <int D, int THREADS> struct CodeTile {
	enum { lanes = D, count = KEYS / BLOCK_TOKENS * lanes / THREADS }; // lanes of a block, with 16 codes each
	quad codes[count];
	u16 scale; // of a key or of a value at the same place

	// load asks for the tile at a position. What a block has behind the context are numbers, too; other blocks
	// are zeros there.
	FORCE_MEMBER void load(const AttendArgs &a, const Item &it, int head, int pos, int values, int thread) {
		UNROLL for (int i = 0; i < count; i++) {
			int n = thread + i * THREADS, at = pos + n / lanes * BLOCK_TOKENS;
			codes[i] = {0, 0, 0, 0};
			if (at >= it.begin && at < it.limit)
				codes[i] = ((const quad *)pool_part(a.pool, it.table[at / BLOCK_TOKENS], a.layer, values, head))[n % lanes];
		}
		scale = values || thread >= 2 * KEYS ? (u16)0 : scale_at(a, it, head, pos, thread);
	}

	FORCE_MEMBER void store(int type, int values, u8 *to, u16 *scales, int thread) const {
		UNROLL for (int i = 0; i < count; i++) {
			int n = thread + i * THREADS, block = n / lanes, unit = n % lanes;
			u32 words[4] = {codes[i].x, codes[i].y, codes[i].z, codes[i].w};
			UNROLL for (int w = 0; w < 4; w++) UNROLL for (int h = 0; h < 2; h++) {
				u32 pair = numbers_of(type, words[w], h);
				if (!values) { // two columns of a token
					int rows8 = block * 2 + unit / (32 * (D / 64)), columns8 = unit / 32 % (D / 64) * 8 + w * 2 + h;
					*(u32 *)(to + piece_at<D>(rows8, columns8) + unit % 32 * 4) = pair;
				} else { // two tokens of a column; two lanes share a quad
					int lane = unit % 16 * 2 + w / 2, columns8 = unit / 16 * 2 + w % 2;
					u16 *at = (u16 *)(to + piece_at<D>(block * 2 + h, columns8) + lane % 4 * 32 + lane / 4 * 2);
					at[0] = (u16)pair;
					at[8] = (u16)(pair >> 16);
				}
			}
		}
		if (!values && thread < 2 * KEYS) scales[scale_index(thread)] = scale;
	}
};

// A Feed brings tiles of keys and values into a ring of STAGES in shared memory as
// 16-bit numbers: of each partition first the keys, then the values.
template <int D, int THREADS, int STAGES, bool FEW> struct Feed {
	enum { tile = KEYS * D * 2, scaleBytes = SCALES * 2, bytes = STAGES * tile + scaleBytes };
	const AttendArgs &a;
	const Item &item;
	u8 *memory; // the ring, then scales of two partitions
	int head;
	int loaded, taken; // tiles
	int partition, at; // the tile to load next: of a partition, keys and then values
	u32 blocks, following; // a lane's block of the partition, and of the one after it

	FORCE_MEMBER int first_tile(int p) const { return p == item.begin / PARTITION ? item.begin % PARTITION / KEYS : 0; }
	FORCE_MEMBER int tiles(int p) const { return least(TILES, (item.limit - p * PARTITION + KEYS - 1) / KEYS); }
	FORCE_MEMBER u32 block_of(int p) const {
		if (FEW && p == item.fields[ITEM_PARTITION]) return threadx % 32 < 16 ? item.fields[ITEM_FIELDS + threadx % 32] : 0;
		int i = p * (PARTITION / BLOCK_TOKENS) + threadx % 32;
		return threadx % 32 < PARTITION / BLOCK_TOKENS && i * BLOCK_TOKENS < item.limit ? item.table[i] : 0;
	}

	FORCE_MEMBER Feed(const AttendArgs &args, const Item &it, u8 *m, int h) : a(args), item(it), memory(m), head(h) {
		loaded = taken = 0;
		partition = item.begin / PARTITION;
		at = first_tile(partition);
		blocks = block_of(partition);
		following = block_of(partition + 1);
	}

	// fill begins to load the first tiles.
	FORCE_MEMBER void fill() {
		for (int i = 0; i < STAGES - 1; i++) load();
	}

	FORCE_MEMBER u8 *stage(int i) const { return memory + i % STAGES * tile; }
	FORCE_MEMBER u16 *scales(int p) const { return (u16 *)(memory + STAGES * tile) + p % 2 * PARTITION; }

	// load begins to load a tile, if there is one more.
	FORCE_MEMBER void load() {
		if (partition * PARTITION < item.limit) {
			int values = at >= TILES, t = at % TILES, pos = partition * PARTITION + t * KEYS;
			const Pool &p = a.pool;
			u8 *to = stage(loaded++);
			if (in_pieces(p) && p.dim == D) {
				UNROLL for (int i = 0; i < KEYS * D / 8 / THREADS; i++) {
					int c = i * THREADS + threadx, b = c / (2 * D);
					u32 block;
					asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(block) : "r"(blocks), "r"(t * (KEYS / BLOCK_TOKENS) + b));
					int key = b * 16 + c % (2 * D) / D * 8 + c % 8;
					const u8 *from = pool_part(p, (int)block, a.layer, values, head) + c % (2 * D) * 16;
					copy_async(shared_address(to) + c * 16, from, pos + key < item.limit ? 16 : 0);
				}
			} else {
				load_other(to, values, t, pos);
			}
			at++;
			if (at == tiles(partition)) at = TILES + first_tile(partition);
			if (at == TILES + tiles(partition)) {
				partition++;
				at = 0;
				blocks = following;
				following = block_of(partition + 1);
			}
		}
		copy_commit();
	}

	// load_other loads what must be converted; codes in kernels of their own:
	// the registers for that would slow the others down.
	FORCE_MEMBER void load_other(u8 *to, int values, int t, int pos) {
		const Pool &p = a.pool;
#ifdef POOL_CODES
		if (in_lanes(p) && p.dim == D) {
			CodeTile<D, THREADS> tile;
			tile.load(a, item, head, pos, values, threadx);
			return tile.store(p.type, values, to, scales(partition) + t * KEYS, threadx);
		}
#endif
		for (int i = threadx; i < KEYS * D; i += THREADS) {
			int key = i / D, c = i % D;
			u16 v = 0;
			if (pos + key < item.limit && c < p.dim) {
				const u8 *part = pool_part(p, item.table[(pos + key) / BLOCK_TOKENS], a.layer, values, head);
				v = number_at(p, part, element_at(p, values, key % BLOCK_TOKENS, c));
			}
			*(u16 *)(to + piece_at<D>(key / 8, c / 8) + key % 8 * 16 + c % 8 * 2) = v;
		}
		if (p.type >= POOL_INT8 && !values && threadx < 2 * KEYS)
			scales(partition)[t * KEYS + scale_index(threadx)] = scale_at(a, item, head, pos, threadx);
	}

	// take waits for the next tile, begins to load another, and returns where it is.
	FORCE_MEMBER u32 take() {
		copy_wait<STAGES - 2>();
		share();
		sync_block(); // the tile is there, and the stage of the one before is free
		load();
		return shared_address(stage(taken++));
	}
};

// item_at reads an item of so many query rows.
FORCE Item item_at(const AttendArgs &a, const int *fields, int group, int queries) {
	Item it;
	it.fields = fields;
	it.table = a.step + fields[ITEM_TABLE];
	it.rows = fields[ITEM_TOKENS] * group;
	it.past = fields[ITEM_PAST];
	int last = (least(fields[ITEM_FIRST] + queries, it.rows) - 1) / group;
	it.begin = fields[ITEM_PARTITION] * PARTITION;
	it.limit = least(fields[ITEM_LAST] * PARTITION, it.past + last + 1);
	if (a.window > 0) {
		int seen = it.past + fields[ITEM_FIRST] / group - a.window + 1;
		if (seen > it.begin) it.begin = seen / KEYS * KEYS;
	}
	return it;
}

// load_queries brings ROWS query rows from first on into shared memory, by lanes threads of which this one is number from.
template <int D, int ROWS = 16> FORCE void load_queries(const AttendArgs &a, const Item &it, int first, int group, int head, u8 *to, int from, int lanes) {
	int dim = a.pool.dim;
	for (int at = from; at < ROWS * D / 8; at += lanes) {
		int r = at % ROWS, c = at / ROWS * 8, qr = first + r;
		float v[8];
		int row = least(qr, it.rows - 1);
		const float *q = a.q + ((u64)(it.fields[ITEM_ROW] + row / group) * a.queries + head * group + row % group) * dim + c;
		if (dim % 8 == 0 && qr < it.rows && c < dim) {
			quad x = ((const quad *)q)[0], y = ((const quad *)q)[1];
			v[0] = float_of(x.x), v[1] = float_of(x.y), v[2] = float_of(x.z), v[3] = float_of(x.w);
			v[4] = float_of(y.x), v[5] = float_of(y.y), v[6] = float_of(y.z), v[7] = float_of(y.w);
		} else {
			UNROLL for (int i = 0; i < 8; i++) v[i] = qr < it.rows && c + i < dim ? q[i] : 0;
		}
		*(quad *)(to + piece_at<D>(r / 8, c / 8) + r % 8 * 16) = {number_pair(v[0], v[1]), number_pair(v[2], v[3]), number_pair(v[4], v[5]), number_pair(v[6], v[7])};
	}
}

// A Row is the softmax of a query row.
struct Row {
	int position, seen; // of its token, and of the first that it sees
	State all;
	bool begun;
};

FORCE Row row_at(const AttendArgs &a, const Item &it, int qr, int group) {
	Row r;
	r.position = qr < it.rows ? it.past + qr / group : -1;
	r.seen = a.window > 0 ? r.position - a.window + 1 : 0;
	r.all = {0, 0};
	r.begun = false;
	return r;
}

// weigh masks a score and scales it.
FORCE float weigh(const AttendArgs &a, const Row &r, float v, int position, u16 scale) {
	v *= a.scale;
	if (a.pool.type >= POOL_INT8) v *= from_brain(scale);
	return position <= r.position && position >= r.seen ? v : -__builtin_inff();
}

// put writes two columns of a result: of a partition of few rows, or of a row that
// is complete.
FORCE void put(const AttendArgs &a, const Item &it, int qr, int group, int head, int c, float v0, float v1) {
	if (c >= a.pool.dim) return;
	int token = qr / group, h = head * group + qr % group, partial = it.fields[ITEM_PARTIAL];
	int row = it.fields[ITEM_ROW] + token, dim = a.pool.dim;
	if (partial < 0 && a.packed) {
		int col = h * dim + c;
		((u32 *)(a.packed + piece_of(row, a.rowTiles, col / 8)))[col % 8 / 2] = brain_pair(v0, v1);
	}
	if (partial < 0 && !a.dst) return;
	u64 index = (u64)(partial < 0 ? row : partial + token) * a.queries + h;
	float *to = (partial < 0 ? a.dst : a.partials) + index * dim + c;
	to[0] = v0;
	to[1] = v1;
}

// The softmax of a partition is that of its greatest score. Its sum is added up by blocks of 16 keys: block m of tiles h and
// h + 2 by lanes, each of which has keys 2t, 2t + 1, 2t + 8 and 2t + 9, then over h and m, then over lanes.
// Weights are rounded to 16-bit numbers and meet values in chains of sixteens of
// keys. Partitions are united in their order. attend_few and attend_many do the
// same arithmetic.

// sum_of_lane adds a lane's keys of a block of two tiles: two of each eight.
FORCE float sum_of_lane(const float *v0, const float *v1, const float *v2, const float *v3) {
	return ((v0[0] + v1[0]) + (v2[0] + v3[0])) + ((v0[1] + v1[1]) + (v2[1] + v3[1]));
}

// attend_many computes items of WARPS times 16 query rows.
template <int D, int WARPS, int STAGES> FORCE void attend_many(const AttendArgs &a) {
	typedef Feed<D, WARPS * 32, STAGES, false> F;
	enum { held = D <= 128 }; // what was united stays in registers
	extern __shared__ __attribute__((aligned(128))) u8 memory[]; // queries, then the feed's
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, head = blocky, dim = a.pool.dim;
	int group = a.queries / a.pool.heads;
	Item it = item_at(a, a.step + a.step[AT_MANY_ITEMS] + blockx * ITEM_FIELDS, group, WARPS * 16);
	int first = it.fields[ITEM_FIRST] + warp * 16;
	F feed(a, it, memory + WARPS * 16 * D * 2, head);
	feed.fill();
	u8 *mine = memory + warp * 16 * D * 2;
	load_queries<D>(a, it, first, group, head, mine, lane, 32);
	Row row[2] = {row_at(a, it, first + g, group), row_at(a, it, first + g + 8, group)};
	int warpFirst = it.past + first / group, warpLast = it.past + (least(first + 16, it.rows) - 1) / group;
	if (first >= it.rows) warpLast = -1;
	float all[held ? D / 8 : 1][4];
	const bool coded = a.pool.type >= POOL_INT8;
	for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
		int from = feed.first_tile(p), to = feed.tiles(p);
		float s[8 * TILES][4], top[2] = {-__builtin_inff(), -__builtin_inff()};
		auto seen = [&](int j) __attribute__((always_inline)) {
			int pos = p * PARTITION + j * KEYS;
			return pos <= warpLast && (a.window <= 0 || pos + KEYS > warpFirst - a.window + 1);
		};
		UNROLL for (int j = 0; j < TILES; j++) {
			UNROLL for (int n = 0; n < 8; n++) UNROLL for (int i = 0; i < 4; i++) s[8 * j + n][i] = 0;
			u32 keys = 0;
			if (j >= from && j < to) keys = feed.take();
			if (j >= from && j < to && seen(j)) {
				UNROLL for (int k = 0; k < D / 32; k++) {
					quad q[2];
					UNROLL for (int i = 0; i < 2; i++)
						q[i] = load_matrices(shared_address(mine) + piece_at<D>(lane / 8 % 2, 4 * k + 2 * i + lane / 16) + lane % 8 * 16);
					UNROLL for (int n = 0; n < 8; n++) {
						quad b = load_matrices(keys + piece_at<D>(n, 4 * k) + lane * 16);
						multiply_numbers(s[8 * j + n], q[0], b.x, b.y);
						multiply_numbers(s[8 * j + n], q[1], b.z, b.w);
					}
				}
			}
			int pos = p * PARTITION + j * KEYS;
			if (j < from || j >= to) {
				UNROLL for (int n = 0; n < 8; n++) UNROLL for (int i = 0; i < 4; i++) s[8 * j + n][i] = -__builtin_inff();
			} else if (a.window <= 0 && pos + KEYS <= warpFirst + 1 && !coded && first + 16 <= it.rows) { // all rows see all keys
				UNROLL for (int n = 0; n < 8; n++) UNROLL for (int i = 0; i < 4; i++) {
					s[8 * j + n][i] *= a.scale;
					top[i / 2] = __builtin_fmaxf(top[i / 2], s[8 * j + n][i]);
				}
			} else {
				UNROLL for (int n = 0; n < 8; n++) UNROLL for (int i = 0; i < 4; i++) {
					int key = j * KEYS + n * 8 + 2 * t + i % 2;
					s[8 * j + n][i] = weigh(a, row[i / 2], s[8 * j + n][i], p * PARTITION + key, coded ? feed.scales(p)[key] : 0);
					top[i / 2] = __builtin_fmaxf(top[i / 2], s[8 * j + n][i]);
				}
			}
		}
		float base[2], sum[2] = {0, 0};
		UNROLL for (int i = 0; i < 2; i++) {
			top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 1));
			top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 2));
			base[i] = base_of(top[i]) - WEIGHT_SHIFT;
		}
		UNROLL for (int n = 0; n < 8 * TILES; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] = exp2_fast(s[n][i] - base[i / 2]);
		UNROLL for (int w = 0; w < 8; w++) {
			int n = w / 4 * 8 + w % 4 * 2;
			UNROLL for (int i = 0; i < 2; i++) sum[i] += sum_of_lane(s[n] + 2 * i, s[n + 1] + 2 * i, s[n + 16] + 2 * i, s[n + 17] + 2 * i);
		}
		UNROLL for (int i = 0; i < 2; i++) {
			sum[i] += shuffle_xor(sum[i], 1);
			sum[i] += shuffle_xor(sum[i], 2);
		}
		if (coded) {
			UNROLL for (int n = 0; n < 8 * TILES; n++) UNROLL for (int i = 0; i < 2; i++) {
				float factor = n / 8 < from || n / 8 >= to ? 0 : from_brain(feed.scales(p)[2 * PARTITION + n * 8 + 2 * t + i]);
				s[n][i] *= factor, s[n][i + 2] *= factor;
			}
		}
		u32 weights[8 * TILES][2];
		UNROLL for (int n = 0; n < 8 * TILES; n++) UNROLL for (int i = 0; i < 2; i++) weights[n][i] = number_pair(s[n][2 * i], s[n][2 * i + 1]);
		float out[D / 8][4];
		UNROLL for (int n = 0; n < D / 8; n++) UNROLL for (int i = 0; i < 4; i++) out[n][i] = 0;
		UNROLL for (int j = 0; j < TILES; j++) {
			if (j < from || j >= to) continue;
			u32 values = feed.take();
			if (!seen(j)) continue;
			UNROLL for (int k = 0; k < KEYS / 16; k++) {
				int n = 8 * j + 2 * k;
				quad l = {weights[n][0], weights[n][1], weights[n + 1][0], weights[n + 1][1]};
				UNROLL for (int d = 0; d < D / 16; d++) {
					quad b = load_matrices_turned(values + piece_at<D>(2 * k + lane / 8 % 2, 2 * d + lane / 16) + lane % 8 * 16);
					multiply_numbers(out[2 * d], l, b.x, b.y);
					multiply_numbers(out[2 * d + 1], l, b.z, b.w);
				}
			}
		}
		// unite the partition with those before it
		UNROLL for (int i = 0; i < 2; i++) {
			int qr = first + g + 8 * i;
			if (sum[i] == 0) continue;
			float left = 0, right = 1;
			State part = {top[i], sum[i]};
			bool again = row[i].begun;
			if (again) merge(&row[i].all, part, &left, &right);
			else row[i].all = part;
			row[i].begun = true;
			if constexpr (held) {
				UNROLL for (int n = 0; n < D / 8; n++) UNROLL for (int c = 2 * i; c < 2 * i + 2; c++)
					all[n][c] = again ? __builtin_fmaf(all[n][c], left, out[n][c] * right) : out[n][c];
			} else {
				float inverse = (p + 1) * PARTITION > row[i].position ? 1.0f / row[i].all.sum : 1.0f;
				u64 index = (u64)(it.fields[ITEM_ROW] + qr / group) * a.queries + head * group + qr % group;
				UNROLL for (int n = 0; n < D / 8; n++) UNROLL for (int c = 0; c < 2; c++) {
					int col = n * 8 + 2 * t + c;
					if (qr >= it.rows || col >= dim) continue;
					float *at = a.dst + index * dim + col, v = out[n][2 * i + c];
					if (again) v = __builtin_fmaf(*at, left, v * right);
					*at = v * inverse;
				}
			}
		}
	}
	if constexpr (held) {
		UNROLL for (int i = 0; i < 2; i++) {
			int qr = first + g + 8 * i;
			if (qr >= it.rows) continue;
			float inverse = 1.0f / row[i].all.sum;
			UNROLL for (int n = 0; n < D / 8; n++)
				put(a, it, qr, group, head, n * 8 + 2 * t, all[n][2 * i] * inverse, all[n][2 * i + 1] * inverse);
		}
	}
	copy_wait<0>();
}

// put_state writes the state of a query row of an item whose result is partial. Of a context that a window
// has hidden from the row, it is that of no keys.
FORCE void put_state(const AttendArgs &a, const Item &it, int qr, int group, int head, State state) {
	u64 at = (u64)(it.fields[ITEM_PARTIAL] + qr / group) * a.queries + head * group + qr % group;
	a.states[2 * at] = state.top, a.states[2 * at + 1] = state.sum;
}

// put_few writes the results of 16 query rows, of which each warp has some columns.
template <int COLUMNS> FORCE void put_few(const AttendArgs &a, const Item &it, int group, int head, const Row *row,
	const float (*all)[4]) {
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, partial = it.fields[ITEM_PARTIAL];
	UNROLL for (int i = 0; i < 2; i++) {
		int qr = g + 8 * i;
		if (qr >= it.rows) continue;
		if (partial >= 0 && warp == 0 && t == 0) put_state(a, it, qr, group, head, row[i].all);
		if (!row[i].begun) continue;
		float inverse = partial < 0 ? 1.0f / row[i].all.sum : 1.0f;
		UNROLL for (int n = 0; n < COLUMNS; n++)
			put(a, it, qr, group, head, (warp * COLUMNS + n) * 8 + 2 * t, all[n][2 * i] * inverse, all[n][2 * i + 1] * inverse);
	}
}

// attend_few computes items of 16 query rows: eight warps share the keys of a tile,
// and then the columns of the values. Of the first item, a partition that ends before
// the step's tokens was written by steps before this one: it is loaded while the
// kernel before still runs.
template <int D, int STAGES> FORCE void attend_few(const AttendArgs &a) {
	typedef Feed<D, 256, STAGES, true> F;
	enum { queriesAt = 0, weightsAt = 16 * D * 2, feedAt = weightsAt + 16 * PARTITION * 2, columns = D / 64 };
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ float tops[8][16], sums[8][16][4];
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, head = blocky;
	int group = a.queries / a.pool.heads, items = a.step[STEP_FEW_ITEMS], itemsAt = a.step[AT_FEW_ITEMS];
	// What a warp has of a partition: eights 2m and 2m + 1 of tiles h and h + 2; of eight n of these, the lane's first key.
	int m = warp % 4, h = warp / 4;
	auto key_of = [&](int n) __attribute__((always_inline)) { return (h + n / 2 * 2) * KEYS + (2 * m + n % 2) * 8 + 2 * t; };
	bool waited = false;
	start_next();
	if (blockx >= items) return wait_before();
	for (int index = blockx; index < items; index += gridx) {
		Item it = item_at(a, a.step + itemsAt + index * FEW_FIELDS, group, 16);
		F feed(a, it, memory + feedAt, head);
		bool early = a.window <= 0 && (it.begin / PARTITION + 1) * PARTITION <= it.past;
		static_assert(STAGES - 1 <= 2 * TILES);
		if (!waited && !early) wait_before();
		feed.fill();
		if (!waited && early) wait_before();
		waited = true;
		load_queries<D>(a, it, 0, group, head, memory + queriesAt, threadx, 256);
		sync_block();
		quad q[D / 16];
		UNROLL for (int k = 0; k < D / 16; k++)
			q[k] = load_matrices(shared_address(memory + queriesAt) + piece_at<D>(lane / 8 % 2, 2 * k + lane / 16) + lane % 8 * 16);
		Row row[2] = {row_at(a, it, g, group), row_at(a, it, g + 8, group)};
		float all[columns][4];
		for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
			int from = feed.first_tile(p), to = feed.tiles(p);
			float s[4][4], top[2] = {-__builtin_inff(), -__builtin_inff()};
			UNROLL for (int n = 0; n < 4; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] = -__builtin_inff();
			UNROLL for (int j = 0; j < TILES; j++) {
				if (j < from || j >= to) continue;
				u32 keys = feed.take();
				if (j % 2 != h) continue;
				UNROLL for (int n = j / 2 * 2; n < j / 2 * 2 + 2; n++) {
					UNROLL for (int i = 0; i < 4; i++) s[n][i] = 0;
					UNROLL for (int k = 0; k < D / 32; k++) {
						quad b = load_matrices(keys + piece_at<D>(2 * m + n % 2, 4 * k) + lane * 16);
						multiply_numbers(s[n], q[2 * k], b.x, b.y);
						multiply_numbers(s[n], q[2 * k + 1], b.z, b.w);
					}
					UNROLL for (int i = 0; i < 4; i++) {
						int key = key_of(n) + i % 2;
						s[n][i] = weigh(a, row[i / 2], s[n][i], p * PARTITION + key, a.pool.type >= POOL_INT8 ? feed.scales(p)[key] : 0);
						top[i / 2] = __builtin_fmaxf(top[i / 2], s[n][i]);
					}
				}
			}
			UNROLL for (int i = 0; i < 2; i++) {
				top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 1));
				top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 2));
				if (t == 0) tops[warp][g + 8 * i] = top[i];
			}
			sync_block();
			float base[2], sum[2] = {0, 0};
			UNROLL for (int i = 0; i < 2; i++) {
				UNROLL for (int w = 0; w < 8; w++) top[i] = __builtin_fmaxf(top[i], tops[w][g + 8 * i]);
				base[i] = base_of(top[i]) - WEIGHT_SHIFT;
			}
			UNROLL for (int n = 0; n < 4; n++) UNROLL for (int i = 0; i < 4; i++) s[n][i] = exp2_fast(s[n][i] - base[i / 2]);
			UNROLL for (int i = 0; i < 2; i++) sums[warp][g + 8 * i][t] = sum_of_lane(s[0] + 2 * i, s[1] + 2 * i, s[2] + 2 * i, s[3] + 2 * i);
			UNROLL for (int n = 0; n < 4; n++) {
				int j = h + n / 2 * 2;
				if (a.pool.type >= POOL_INT8 && j >= from && j < to) {
					UNROLL for (int i = 0; i < 2; i++) {
						float factor = from_brain(feed.scales(p)[2 * PARTITION + key_of(n) + i]);
						s[n][i] *= factor, s[n][i + 2] *= factor;
					}
				}
				UNROLL for (int i = 0; i < 2; i++)
					*(u32 *)(memory + weightsAt + piece_at<PARTITION>(i, key_of(n) / 8) + g * 16 + t * 4) = number_pair(s[n][2 * i], s[n][2 * i + 1]);
			}
			float out[columns][4];
			UNROLL for (int n = 0; n < columns; n++) UNROLL for (int i = 0; i < 4; i++) out[n][i] = 0;
			bool first = true;
			UNROLL for (int j = 0; j < TILES; j++) {
				if (j < from || j >= to) continue;
				u32 values = feed.take(); // after which the weights and sums are there, too
				if (first) {
					UNROLL for (int i = 0; i < 2; i++) {
						UNROLL for (int w = 0; w < 8; w++) sum[i] += sums[w][g + 8 * i][t];
						sum[i] += shuffle_xor(sum[i], 1);
						sum[i] += shuffle_xor(sum[i], 2);
					}
					first = false;
				}
				UNROLL for (int k = 0; k < KEYS / 16; k += 2) {
					quad l[2];
					UNROLL for (int i = 0; i < 2; i++)
						l[i] = load_matrices(shared_address(memory + weightsAt) + piece_at<PARTITION>(lane / 8 % 2, 8 * j + 2 * (k + i) + lane / 16) + lane % 8 * 16);
					UNROLL for (int n = 0; n < columns; n++) { // four eights of keys of eight columns
						quad b = load_matrices_turned(values + piece_at<D>(2 * k + lane / 8, warp * columns + n) + lane % 8 * 16);
						multiply_numbers(out[n], l[0], b.x, b.y);
						multiply_numbers(out[n], l[1], b.z, b.w);
					}
				}
			}
			UNROLL for (int i = 0; i < 2; i++) {
				if (sum[i] == 0) continue;
				float left = 0, right = 1;
				State now = {top[i], sum[i]};
				bool again = row[i].begun;
				if (again) merge(&row[i].all, now, &left, &right);
				else row[i].all = now;
				row[i].begun = true;
				UNROLL for (int n = 0; n < columns; n++) UNROLL for (int c = 2 * i; c < 2 * i + 2; c++)
					all[n][c] = again ? __builtin_fmaf(all[n][c], left, out[n][c] * right) : out[n][c];
			}
		}
		put_few<columns>(a, it, group, head, row, all);
		copy_wait<0>();
		sync_block();
	}
}

#define ATTEND_FEW(d, stages, blocks) \
	BOUNDED(256, blocks) void attend_few_##d(AttendArgs a) { attend_few<d, stages>(a); }
#define ATTEND_MANY(d, warps, stages) \
	BOUNDED(warps * 32, 1) void attend_many_##d(AttendArgs a) { begin(); attend_many<d, warps, stages>(a); }
#define ATTEND_MANY90(d, stages) \
	BOUNDED(256 + FEEDERS, 1) void attend_many_##d(AttendArgs a) { begin(); attend_many90<d, stages>(a); }
