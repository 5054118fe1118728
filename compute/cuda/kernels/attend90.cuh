// Attention with many query rows by the warpgroup instructions of Hopper. The
// arithmetic is that of attend.cuh.
#pragma once
#include "async90.cuh"
#include "attend.cuh"
#include "group90.cuh"

// The accumulators of a warpgroup instruction, by their numbers and as operands.
#define NUMBERS_32 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}"
#define NUMBERS_64 "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define EIGHT(c, n) "+f"(c[n]), "+f"(c[n + 1]), "+f"(c[n + 2]), "+f"(c[n + 3]), "+f"(c[n + 4]), "+f"(c[n + 5]), "+f"(c[n + 6]), "+f"(c[n + 7])
#define OPERANDS_32(c) EIGHT(c, 0), EIGHT(c, 8), EIGHT(c, 16), EIGHT(c, 24)
#define OPERANDS_64(c) OPERANDS_32(c), EIGHT(c, 32), EIGHT(c, 40), EIGHT(c, 48), EIGHT(c, 56)
#define FENCE "wgmma.fence.sync.aligned;\n"

// The FIRST instruction of a chain comes with the fence: the compiler may copy c before it.

// c += a·b with a of 64x16 and b of 16x128 numbers in shared memory. Without KEEP, c is set.
template <bool KEEP, bool FIRST> FORCE void score_group(float *c, u64 a, u64 b) {
#define SCORE "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." NUMBER "." NUMBER " " NUMBERS_64 ", %64, %65, p, 1, 1, 0, 0;\n}\n"
	if (FIRST) asm volatile(FENCE SCORE : OPERANDS_64(c) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
	else asm volatile(SCORE : OPERANDS_64(c) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
#undef SCORE
}

// c += a·b with a of 64x16 numbers in registers and b of 16xD in shared memory, by rows.
template <int D, bool FIRST> FORCE void multiply_values(float *c, const u32 *a, u64 b) {
#define WIDE "wgmma.mma_async.sync.aligned.m64n128k16.f32." NUMBER "." NUMBER " " NUMBERS_64 ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
#define NARROW "wgmma.mma_async.sync.aligned.m64n64k16.f32." NUMBER "." NUMBER " " NUMBERS_32 ", {%32,%33,%34,%35}, %36, 1, 1, 1, 1;\n"
#define SIDES "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
	if constexpr (D == 128) {
		if (FIRST) asm volatile(FENCE WIDE : OPERANDS_64(c) : SIDES : "memory");
		else asm volatile(WIDE : OPERANDS_64(c) : SIDES : "memory");
	} else {
		if (FIRST) asm volatile(FENCE NARROW : OPERANDS_32(c) : SIDES : "memory");
		else asm volatile(NARROW : OPERANDS_32(c) : SIDES : "memory");
	}
#undef WIDE
#undef NARROW
#undef SIDES
}

// pieces lie 128 bytes apart along one direction and stride along the other.
FORCE u64 described(u32 address, int leading, int stride) {
	return (u64)(address >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32;
}

// How many threads copy: codes are converted on the way, which takes more of them.
#ifdef POOL_CODES
#define FEEDERS 256
#define CODED true
#else
#define FEEDERS 128
#define CODED false
#endif

// A Stream is the ring of tiles of attend_many90: of each partition four of keys, then four of values. Scales are
// kept for two partitions, and needed until the first values of their partition are: so there are at most 12 stages.
template <int D, int STAGES> struct Stream {
	static_assert(STAGES % 2 == 0 && STAGES <= 3 * TILES);
	enum { tile = KEYS * D * 2, threads = FEEDERS }; // threads that fill it
	u8 *memory;
	u32 full, empty;

	FORCE_MEMBER u8 *at(int n) const { return memory + n % STAGES * tile; }
	FORCE_MEMBER u16 *scales(int p) const { return (u16 *)(memory + STAGES * tile) + p % 2 * PARTITION; }

	// feed fills the ring with the partitions of an item. Blocks that are there as a whole
	// are bulk copies by the first warp.
	FORCE_MEMBER void feed(const AttendArgs &a, const Item &it, int head) const {
		const Pool &p = a.pool;
		int thread = threadx - 256, lane = threadx % 32, n = 0;
#ifdef POOL_CODES
		if (in_lanes(p) && p.dim == D) return feed_codes(a, it, head, thread);
#endif
		auto block_of = [&](int partition) __attribute__((always_inline)) {
			int i = partition * (PARTITION / BLOCK_TOKENS) + lane;
			return lane < PARTITION / BLOCK_TOKENS && i * BLOCK_TOKENS < it.limit ? it.table[i] : 0;
		};
		int blocks = block_of(it.begin / PARTITION);
		for (int partition = it.begin / PARTITION; partition * PARTITION < it.limit; partition++) {
			int following = block_of(partition + 1);
			for (int i = 0; i < 2 * TILES; i++, n++) {
				int values = i / TILES, pos = partition * PARTITION + i % TILES * KEYS;
				if (thread < 32 && n >= STAGES) barrier_wait(empty + 8 * (n % STAGES), (n / STAGES - 1) & 1);
				const int bytes = BLOCK_TOKENS * D * 2;
				int left = pos < it.begin ? 0 : it.limit - pos, whole = 0;
				if (in_pieces(p) && p.dim == D && left > 0) whole = least(left / BLOCK_TOKENS, KEYS / BLOCK_TOKENS);
				if (whole < KEYS / BLOCK_TOKENS) {
					sync_some(3, threads); // the stage is free
					load(a, it, head, partition, i % TILES, values, at(n), whole * 2 * D + thread);
					share();
					sync_some(3, threads);
				}
				if (thread >= 32) continue;
				u32 block;
				asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
					: "=r"(block) : "r"(blocks), "r"(i % TILES * (KEYS / BLOCK_TOKENS) + lane % (KEYS / BLOCK_TOKENS)));
				if (lane == 0) barrier_expect(full + 8 * (n % STAGES), whole * bytes);
				sync_warp();
				if (lane < whole) copy_bulk(shared_address(at(n)) + lane * bytes,
					pool_part(p, (int)block, a.layer, values, head), bytes, full + 8 * (n % STAGES));
			}
			blocks = following;
		}
	}

	// feed_codes does the same with codes that lie in lanes. A tile is asked for before the one ahead of it is converted.
	FORCE_MEMBER void feed_codes(const AttendArgs &a, const Item &it, int head, int thread) const {
		CodeTile<D, threads> tile;
		int first = it.begin / PARTITION, all = ((it.limit + PARTITION - 1) / PARTITION - first) * 2 * TILES;
		auto load = [&](CodeTile<D, threads> &to, int n) __attribute__((always_inline)) {
			int pos = (first + n / (2 * TILES)) * PARTITION + n % TILES * KEYS;
			to.load(a, it, head, pos, n / TILES % 2, thread);
		};
		load(tile, 0);
		for (int n = 0; n < all; n++) {
			CodeTile<D, threads> now = tile;
			if (n + 1 < all) load(tile, n + 1);
			if (thread < 32 && n >= STAGES) barrier_wait(empty + 8 * (n % STAGES), (n / STAGES - 1) & 1);
			sync_some(3, threads); // the stage is free
			now.store(a.pool.type, n / TILES % 2, at(n), scales(first + n / (2 * TILES)) + n % TILES * KEYS, thread);
			share();
			sync_some(3, threads);
			if (thread == 0) barrier_arrive(full + 8 * (n % STAGES));
		}
	}

	// load fills a tile number by number, with zeros where no context is, from a piece of 8 columns of a key on.
	FORCE_MEMBER void load(const AttendArgs &a, const Item &it, int head, int partition, int t, int values, u8 *to, int from) const {
		const Pool &p = a.pool;
		int pos = partition * PARTITION + t * KEYS, thread = threadx - 256;
		bool there = pos >= it.begin;
		for (int c = from; c < KEYS * D / 8; c += threads) {
			int key = c / D * 8 + c % 8, col = c % D / 8 * 8;
			quad v = {0, 0, 0, 0};
			if (there && pos + key < it.limit && col < p.dim) {
				const u8 *part = pool_part(p, it.table[(pos + key) / BLOCK_TOKENS], a.layer, values, head);
				if (in_pieces(p)) v = *(const quad *)(part + element_at(p, values, key % BLOCK_TOKENS, col) * 2);
				else v = convert(p, part, values, key % BLOCK_TOKENS, col);
			}
			*(quad *)(to + c * 16) = v;
		}
		if (p.type >= POOL_INT8 && !values && thread < 2 * KEYS)
			scales(partition)[t * KEYS + scale_index(thread)] = scale_at(a, it, head, pos, thread);
	}

	static FORCE_MEMBER quad convert(const Pool &p, const u8 *part, int values, int token, int col) {
		u16 v[8];
		UNROLL for (int i = 0; i < 8; i++)
			v[i] = col + i < p.dim ? number_at(p, part, element_at(p, values, token, col + i)) : (u16)0;
		return {v[0] | (u32)v[1] << 16, v[2] | (u32)v[3] << 16, v[4] | (u32)v[5] << 16, v[6] | (u32)v[7] << 16};
	}

	// take waits for tile n and returns where it is; give gives it back.
	FORCE_MEMBER u32 take(int n) const {
		barrier_wait(full + 8 * (n % STAGES), n / STAGES & 1);
		return shared_address(at(n));
	}
	FORCE_MEMBER void give(int n) const {
		sync_warp();
		if (threadx % 32 == 0) barrier_arrive(empty + 8 * (n % STAGES));
	}
};

// scale_of_two is one of two scales that are loaded at once.
FORCE float scale_of_two(const u16 *at, int second) {
	u32 both = *(const u32 *)at;
	return float_of(second ? both & 0xffff0000 : both << 16);
}

// attend_many90 computes items of 128 query rows, 64 for each of two warpgroups, which
// take turns at the tensor cores; a third one copies.
template <int D, int STAGES> FORCE void attend_many90(const AttendArgs &a) {
	extern __shared__ __attribute__((aligned(128))) u8 memory[]; // queries, then the stream's
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	int lane = threadx % 32, warp = threadx / 32, wg = warp / 4, g = lane / 4, t = lane % 4, head = blocky;
	int group = a.queries / a.pool.heads;
	int longest = gridx - 1 - blockx; // the last tokens look at the most positions: they come first
	Item it = item_at(a, a.step + a.step[AT_MANY_ITEMS] + longest * ITEM_FIELDS, group, 128);
	Stream<D, STAGES> stream = {memory + 128 * D * 2, shared_address(barriers), shared_address(barriers) + 8 * STAGES};
	open_barriers<STAGES>(stream.full, 8);
	if (wg >= 2) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		return stream.feed(a, it, head);
	}
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CODED ? 216 : 232));
	int first = it.fields[ITEM_FIRST] + warp * 16;
	load_queries<D>(a, it, first, group, head, memory + warp * 16 * D * 2, lane, 32);
	share();
	sync_some(1 + wg, 128);
	Row row[2] = {row_at(a, it, first + g, group), row_at(a, it, first + g + 8, group)};
	int warpFirst = it.past + first / group, n = 0;
	u64 queries = described(shared_address(memory + wg * 64 * D * 2), 128, D * 16);
	float all[D / 2]; // what was united
	State united[2] = {{-__builtin_inff(), 0}, {-__builtin_inff(), 0}};
	UNROLL for (int i = 0; i < D / 2; i++) all[i] = 0;
	for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
		float s[TILES][32], top[2] = {-__builtin_inff(), -__builtin_inff()};
		UNROLL for (int j = 0; j < TILES; j += 2, n += 2) { // two tiles lie side by side
			stream.take(n + 1);
			u64 right = described(stream.take(n), 128, D * 16);
			score_group<false, true>(s[j], queries, right);
			UNROLL for (int k = 1; k < D / 16; k++) score_group<true, false>(s[j], queries + k * 16, right + k * 16);
			group_commit();
			if (j == 0) continue;
			group_wait<1>();
			stream.give(n - 2);
			stream.give(n - 1);
		}
		group_wait<0>();
		stream.give(n - 2);
		stream.give(n - 1);
		if (!CODED && a.window <= 0 && (p + 1) * PARTITION <= warpFirst + 1 && first + 16 <= it.rows) { // all rows see all keys
			UNROLL for (int j = 0; j < TILES; j++) UNROLL for (int i = 0; i < 32; i++) {
				s[j][i] *= a.scale;
				top[i / 2 % 2] = __builtin_fmaxf(top[i / 2 % 2], s[j][i]);
			}
		} else {
			// The first and last key that a row sees, counted from the lane's first.
			int lanes = p * PARTITION + 2 * t, from[2], to[2];
			UNROLL for (int i = 0; i < 2; i++) from[i] = row[i].seen - lanes, to[i] = row[i].position - lanes;
			UNROLL for (int j = 0; j < TILES; j++) UNROLL for (int i = 0; i < 32; i++) {
				int key = j * KEYS + i / 4 * 8 + i % 2, r = i / 2 % 2;
				float v = s[j][i] * a.scale;
				if (CODED) v *= scale_of_two(stream.scales(p) + 2 * t + key - i % 2, i % 2);
				s[j][i] = key >= from[r] && key <= to[r] ? v : -__builtin_inff();
				top[r] = __builtin_fmaxf(top[r], s[j][i]);
			}
		}
		float base[2], sum[2] = {0, 0};
		UNROLL for (int i = 0; i < 2; i++) {
			top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 1));
			top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 2));
			base[i] = base_of(top[i]) - WEIGHT_SHIFT;
		}
		u32 weights[TILES][16]; // as the left side of warpgroup instructions
		UNROLL for (int w = 0; w < 8; w++) { // block w % 4 of tiles w / 4 and w / 4 + 2
			float *block[2] = {s[w / 4] + w % 4 * 8, s[w / 4 + 2] + w % 4 * 8};
			UNROLL for (int j = 0; j < 2; j++) UNROLL for (int i = 0; i < 8; i++)
				block[j][i] = exp2_fast(block[j][i] - base[i / 2 % 2]);
			UNROLL for (int i = 0; i < 2; i++)
				sum[i] += sum_of_lane(block[0] + 2 * i, block[0] + 4 + 2 * i, block[1] + 2 * i, block[1] + 4 + 2 * i);
			UNROLL for (int n = 0; n < 4; n++) {
				int j = w / 4 + n / 2 * 2, e = w % 4 * 2 + n % 2; // an eight of a tile
				float *v = s[j] + 4 * e;
				if (CODED) {
					UNROLL for (int i = 0; i < 2; i++) {
						float factor = scale_of_two(stream.scales(p) + 2 * PARTITION + j * KEYS + e * 8 + 2 * t, i);
						v[i] *= factor, v[i + 2] *= factor;
					}
				}
				weights[j][2 * e] = number_pair(v[0], v[1]);
				weights[j][2 * e + 1] = number_pair(v[2], v[3]);
			}
		}
		UNROLL for (int i = 0; i < 2; i++) {
			sum[i] += shuffle_xor(sum[i], 1);
			sum[i] += shuffle_xor(sum[i], 2);
		}
		float out[D / 2], left[2], right[2];
		UNROLL for (int i = 0; i < D / 2; i++) out[i] = 0;
		UNROLL for (int j = 0; j < TILES; j++, n++) {
			u64 right = described(stream.take(n), D * 16, 128);
			multiply_values<D, true>(out, weights[j], right);
			UNROLL for (int k = 1; k < KEYS / 16; k++) multiply_values<D, false>(out, weights[j] + 4 * k, right + k * 2 * D);
			group_commit();
			if (j == 0) continue;
			group_wait<1>();
			stream.give(n - 1);
		}
		// Unite the partition with those before it. A row that sees none of it has a sum of zero.
		UNROLL for (int i = 0; i < 2; i++) merge(&united[i], {top[i], sum[i]}, &left[i], &right[i]);
		group_wait<0>();
		stream.give(n - 1);
		UNROLL for (int c = 0; c < D / 2; c++) all[c] = __builtin_fmaf(all[c], left[c / 2 % 2], out[c] * right[c / 2 % 2]);
	}
	UNROLL for (int i = 0; i < 2; i++) {
		int qr = first + g + 8 * i;
		if (qr >= it.rows) continue;
		float inverse = 1.0f / united[i].sum;
		UNROLL for (int m = 0; m < D / 8; m++)
			put(a, it, qr, group, head, m * 8 + 2 * t, all[4 * m + 2 * i] * inverse, all[4 * m + 2 * i + 1] * inverse);
	}
}
