// Attention with many query rows by the warpgroup instructions of Hopper. The
// arithmetic is that of attend.cuh.
#pragma once
#include "async90.cuh"
#include "attend.cuh"
#include "group90.cuh"

// c += a·b with a of 64x16 and b of 16x64 bfloat16 numbers in shared memory.
// Without KEEP, c is set. The FIRST one comes with the fence: the compiler may copy c before it.
template <bool KEEP, bool FIRST> FORCE void brain_group_64(float *c, u64 a, u64 b) {
	if (FIRST)
		asm volatile("wgmma.fence.sync.aligned;\n{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
	else
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
}

// c += a·b with a of 64x16 and b of 16x64 bfloat16 numbers in shared memory, b by rows.
// Without KEEP, c is set. The FIRST one comes with the fence: the compiler may copy c before it.
template <bool KEEP, bool FIRST> FORCE void brain_group_64_turned(float *c, u64 a, u64 b) {
	if (FIRST)
		asm volatile("wgmma.fence.sync.aligned;\n{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 1;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
	else
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 1;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
}

// c += a·b with a of 64x16 and b of 16x128 bfloat16 numbers in shared memory, b by rows.
// Without KEEP, c is set. The FIRST one comes with the fence: the compiler may copy c before it.
template <bool KEEP, bool FIRST> FORCE void brain_group_128_turned(float *c, u64 a, u64 b) {
	if (FIRST)
		asm volatile("wgmma.fence.sync.aligned;\n{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 1;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
	else
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 1;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]) : "l"(a), "l"(b), "n"(KEEP ? 1 : 0) : "memory");
}

// pieces lie 128 bytes apart along one direction and stride along the other.
FORCE u64 described(u32 address, int leading, int stride) {
	return (u64)(address >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32;
}

template <int D, bool FIRST> FORCE void multiply_values(float *c, u64 a, u64 b) {
	if constexpr (D == 128) brain_group_128_turned<true, FIRST>(c, a, b);
	else brain_group_64_turned<true, FIRST>(c, a, b);
}

// How many threads copy: codes are converted on the way, which takes more of them.
#ifdef POOL_CODES
#define FEEDERS 256
#else
#define FEEDERS 128
#endif

// A Stream is the ring of tiles of attend_many90: of each partition four of keys, then four of values.
template <int D, int STAGES> struct Stream {
	enum { tile = KEYS * D * 2, threads = FEEDERS }; // threads that fill it
	u8 *memory;
	u32 full, empty;

	FORCE_MEMBER u8 *at(int n) const { return memory + n % STAGES * tile; }
	FORCE_MEMBER u16 *scales(int p) const { return (u16 *)(memory + STAGES * tile) + p % 2 * PARTITION; } // of keys

	// feed fills the ring with the partitions of an item. Tiles that are there as a whole
	// are bulk copies of their blocks, by the first warp.
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
				if (in_pieces(p) && p.dim == D && pos >= it.begin && pos + KEYS <= it.limit) {
					if (thread >= 32) continue;
					u32 block;
					asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
						: "=r"(block) : "r"(blocks), "r"(i % TILES * (KEYS / BLOCK_TOKENS) + lane % (KEYS / BLOCK_TOKENS)));
					if (lane == 0) barrier_expect(full + 8 * (n % STAGES), tile);
					sync_warp();
					const int bytes = BLOCK_TOKENS * D * 2;
					if (lane < KEYS / BLOCK_TOKENS) copy_bulk(shared_address(at(n)) + lane * bytes,
						pool_part(p, (int)block, a.layer, values, head), bytes, full + 8 * (n % STAGES));
					continue;
				}
				sync_some(3, threads); // the stage is free
				load(a, it, head, partition, i % TILES, values, at(n), thread);
				share();
				sync_some(3, threads);
				if (thread == 0) barrier_arrive(full + 8 * (n % STAGES));
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

	// load fills a tile number by number, with zeros where no context is.
	FORCE_MEMBER void load(const AttendArgs &a, const Item &it, int head, int partition, int t, int values, u8 *to, int thread) const {
		const Pool &p = a.pool;
		int pos = partition * PARTITION + t * KEYS;
		bool there = pos >= it.begin;
		for (int c = thread; c < KEYS * D / 8; c += threads) { // 8 columns of a key
			int key = c / D * 8 + c % 8, col = c % D / 8 * 8;
			quad v = {0, 0, 0, 0};
			if (there && pos + key < it.limit && col < p.dim) {
				const u8 *part = pool_part(p, it.table[(pos + key) / BLOCK_TOKENS], a.layer, values, head);
				if (in_pieces(p)) v = *(const quad *)(part + element_at(p, values, key % BLOCK_TOKENS, col) * 2);
				else v = convert(p, part, values, key % BLOCK_TOKENS, col);
			}
			*(quad *)(to + c * 16) = v;
		}
		if (p.type >= POOL_INT8 && !values && thread < KEYS) {
			u16 s = 0;
			if (there && pos + thread < it.limit) {
				s = scales_of(p, it.table[(pos + thread) / BLOCK_TOKENS], a.layer, values, head)[thread % BLOCK_TOKENS];
			}
			scales(partition)[t * KEYS + thread] = s;
		}
	}

	static FORCE_MEMBER quad convert(const Pool &p, const u8 *part, int values, int token, int col) {
		u16 v[8];
		UNROLL for (int i = 0; i < 8; i++)
			v[i] = col + i < p.dim ? brain_at(p, part, element_at(p, values, token, col + i)) : (u16)0;
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

// attend_many90 computes items of 128 query rows, 64 for each of two warpgroups, which
// take turns at the tensor cores; a third one copies.
template <int D, int STAGES> FORCE void attend_many90(const AttendArgs &a) {
	enum { weightsAt = 128 * D * 2, unitedAt = weightsAt + 128 * PARTITION * 2, streamAt = unitedAt + 128 * D * 4 };
	extern __shared__ __attribute__((aligned(128))) u8 memory[]; // queries, weights, what was united, the stream's
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	int lane = threadx % 32, warp = threadx / 32, wg = warp / 4, g = lane / 4, t = lane % 4, head = blocky;
	int group = a.queries / a.pool.heads;
	Item it = item_at(a, a.step + a.step[AT_MANY_ITEMS] + blockx * ITEM_FIELDS, group, 128);
	Stream<D, STAGES> stream = {memory + streamAt, shared_address(barriers), shared_address(barriers) + 8 * STAGES};
	open_barriers<STAGES>(stream.full, 8);
	if (wg >= 2) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		return stream.feed(a, it, head);
	}
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(FEEDERS == 128 ? 232 : 216));
	auto sync_group = [&]() __attribute__((always_inline)) { sync_some(1 + wg, 128); };
	int first = it.fields[ITEM_FIRST] + warp * 16;
	load_queries<D>(a, it, first, group, head, memory + warp * 16 * D * 2, lane, 32);
	share();
	sync_group();
	Row row[2] = {row_at(a, it, first + g, group), row_at(a, it, first + g + 8, group)};
	int warpFirst = it.past + first / group, n = 0;
	u64 queries = described(shared_address(memory + wg * 64 * D * 2), 128, D * 16);
	u64 weights = described(shared_address(memory + weightsAt + wg * 64 * PARTITION * 2), 128, PARTITION * 16);
	float *all = (float *)(memory + unitedAt) + threadx; // 256 apart; registers are for scores
	const bool coded = a.pool.type >= POOL_INT8;
	for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
		float s[TILES][32], top[2] = {-__builtin_inff(), -__builtin_inff()};
		UNROLL for (int j = 0; j < TILES; j++, n++) {
			u64 right = described(stream.take(n), 128, D * 16);
			brain_group_64<false, true>(s[j], queries, right);
			UNROLL for (int k = 1; k < D / 16; k++) brain_group_64<true, false>(s[j], queries + k * 16, right + k * 16);
			group_commit();
			if (j == 0) continue;
			group_wait<1>();
			stream.give(n - 1);
		}
		group_wait<0>();
		stream.give(n - 1);
		UNROLL for (int j = 0; j < TILES; j++) {
			int pos = p * PARTITION + j * KEYS;
			if (a.window <= 0 && pos + KEYS <= warpFirst + 1 && !coded && first + 16 <= it.rows) { // all rows see all keys
				UNROLL for (int i = 0; i < 32; i++) {
					s[j][i] *= a.scale;
					top[i / 2 % 2] = __builtin_fmaxf(top[i / 2 % 2], s[j][i]);
				}
			} else {
				UNROLL for (int i = 0; i < 32; i++) {
					int key = j * KEYS + i / 4 * 8 + 2 * t + i % 2;
					s[j][i] = weigh(a, row[i / 2 % 2], s[j][i], p * PARTITION + key, coded ? stream.scales(p)[key] : 0);
					top[i / 2 % 2] = __builtin_fmaxf(top[i / 2 % 2], s[j][i]);
				}
			}
		}
		float base[2], sum[2] = {0, 0};
		UNROLL for (int i = 0; i < 2; i++) {
			top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 1));
			top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 2));
			base[i] = base_of(top[i]);
		}
		u8 *mine = memory + weightsAt + warp * 16 * PARTITION * 2 + g * 16 + t * 4;
		sync_group(); // the weights of the partition before are not needed any more
		UNROLL for (int w = 0; w < 8; w++) {
			float part[2] = {0, 0};
			UNROLL for (int j = 0; j < TILES; j++) {
				float *v = s[j] + 4 * w;
				UNROLL for (int i = 0; i < 4; i++) {
					v[i] = exp2_fast(v[i] - base[i / 2]);
					part[i / 2] += v[i];
				}
				if (coded) {
					UNROLL for (int i = 0; i < 2; i++) {
						float factor = value_scale(a, it, p * PARTITION + j * KEYS + w * 8 + 2 * t + i, head);
						v[i] *= factor, v[i + 2] *= factor;
					}
				}
				*(u32 *)(mine + piece_at<PARTITION>(0, 8 * j + w)) = brain_pair(v[0], v[1]);
				*(u32 *)(mine + piece_at<PARTITION>(1, 8 * j + w)) = brain_pair(v[2], v[3]);
			}
			sum[0] += part[0], sum[1] += part[1];
		}
		share();
		sync_group();
		UNROLL for (int i = 0; i < 2; i++) {
			sum[i] += shuffle_xor(sum[i], 1);
			sum[i] += shuffle_xor(sum[i], 2);
		}
		float out[D / 2];
		UNROLL for (int i = 0; i < D / 2; i++) out[i] = 0;
		UNROLL for (int j = 0; j < TILES; j++, n++) {
			u64 right = described(stream.take(n), D * 16, 128);
			multiply_values<D, true>(out, weights + j * KEYS, right);
			UNROLL for (int k = 1; k < KEYS / 16; k++) multiply_values<D, false>(out, weights + j * KEYS + k * 16, right + k * 2 * D);
			group_commit();
			if (j == 0) continue;
			group_wait<1>();
			stream.give(n - 1);
		}
		group_wait<0>();
		stream.give(n - 1);
		UNROLL for (int i = 0; i < 2; i++) { // unite the partition with those before it
			if (sum[i] == 0) continue;
			float left = 0, right = 1;
			State part = {top[i], sum[i]};
			bool again = row[i].begun;
			if (again) merge(&row[i].all, part, &left, &right);
			else row[i].all = part;
			row[i].begun = true;
			UNROLL for (int m = 0; m < D / 8; m++) UNROLL for (int c = 4 * m + 2 * i; c < 4 * m + 2 * i + 2; c++)
				all[c * 256] = again ? __builtin_fmaf(all[c * 256], left, out[c] * right) : out[c];
		}
	}
	UNROLL for (int i = 0; i < 2; i++) {
		int qr = first + g + 8 * i;
		if (qr >= it.rows) continue;
		float inverse = 1.0f / row[i].all.sum;
		UNROLL for (int m = 0; m < D / 8; m++)
			put(a, it, qr, group, head, m * 8 + 2 * t, all[(4 * m + 2 * i) * 256] * inverse, all[(4 * m + 2 * i + 1) * 256] * inverse);
	}
}
