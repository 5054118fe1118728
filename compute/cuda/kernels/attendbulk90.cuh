// Attention with few query rows over a pool of bfloat16 numbers or of codes on Hopper, fed by
// bulk copies. The arithmetic is that of attend_few.
#pragma once
#include "async90.cuh"
#include "attend.cuh"

// codes_of reads a lane's words of the values of a block in shared memory: of a warp's sixteen columns, of heads of 64 its
// eight columns alone.
template <int D> FORCE duo codes_of(u32 block, int warp) {
	int lane = threadx % 32;
	duo r = {0, 0};
	if (D == 128) asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(r.x), "=r"(r.y) : "r"(block + (warp * 32 + lane) * 8) : "memory");
	else asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r.x) : "r"(block + (warp / 2 * 32 + lane) * 8 + warp % 2 * 4) : "memory");
	return r;
}

// attend_bulk computes items of 16 query rows: eight warps share the keys of a tile, and
// then the columns of the values. One warp more copies tiles through a ring of STAGES, from
// item to item. A partition that ends before the step's tokens was written by steps
// before this one: it is copied while the kernel before still runs.
template <int D, int STAGES, int TYPE> FORCE void attend_bulk(const AttendArgs &a) {
	enum { warps = 8, coded = TYPE >= POOL_INT8, blockBytes = BLOCK_TOKENS * D * (coded ? 1 : 2) };
	enum { tileBlocks = KEYS / BLOCK_TOKENS, tile = tileBlocks * blockBytes };
	enum { weightsAt = 16 * D * 2, ringAt = weightsAt + 16 * PARTITION * 2, columns = D / 64 };
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	__shared__ float tops[warps][16], sums[warps][16][4];
	int lane = threadx % 32, warp = threadx / 32, g = lane / 4, t = lane % 4, head = blocky;
	int group = a.queries / a.pool.heads, items = a.step[STEP_FEW_ITEMS], itemsAt = a.step[AT_FEW_ITEMS];
	start_next();
	if (blockx >= items) return wait_before();
	u32 ring = shared_address(memory + ringAt), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, warps);
	auto first_tile = [&](const Item &it, int p) __attribute__((always_inline)) {
		return p == it.begin / PARTITION ? it.begin % PARTITION / KEYS : 0;
	};
	auto tiles = [&](const Item &it, int p) __attribute__((always_inline)) {
		return least(TILES, (it.limit - p * PARTITION + KEYS - 1) / KEYS);
	};
	if (warp == warps) {
		bool waited = false;
		int n = 0;
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
				int from = first_tile(it, p), to = tiles(it, p);
				for (int i = 0; i < 2 * (to - from); i++, n++) {
					int values = i >= to - from, j = from + i - values * (to - from), s = n % STAGES;
					int blocks = least(tileBlocks, (it.limit - p * PARTITION - j * KEYS + BLOCK_TOKENS - 1) / BLOCK_TOKENS);
					u32 block;
					asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
						: "=r"(block) : "r"(mine), "r"(j * tileBlocks + lane % tileBlocks));
					if (n >= STAGES) barrier_wait(empty + 8 * s, (n / STAGES - 1) & 1);
					if (lane == 0) barrier_expect(full + 8 * s, blocks * blockBytes);
					sync_warp();
					if (lane < blocks) copy_bulk(ring + s * tile + lane * blockBytes,
						pool_part(a.pool, (int)block, a.layer, values, head), blockBytes, full + 8 * s);
				}
			}
		}
		if (!waited) wait_before();
		return;
	}
	wait_before();
	int n = 0;
	const u8 *scalesAt = (const u8 *)scales_of(a.pool, 0, a.layer, 0, head);
	const u64 valuesBehind = a.pool.heads * a.pool.partBytes, blockStride = valuesBehind * 2 * a.pool.layers;
	auto sync = [&]() __attribute__((always_inline)) { sync_some(1, warps * 32); };
	// take waits for the next tile and returns where it is. Behind the context it has zeros; of codes, other numbers.
	auto take = [&](int left) __attribute__((always_inline)) {
		int s = n % STAGES;
		barrier_wait(full + 8 * s, n / STAGES & 1);
		if (!coded && left < KEYS) {
			quad *pieces = (quad *)(memory + ringAt + s * tile);
			for (int i = threadx; i < KEYS * D / 8; i += warps * 32)
				if (i / D * 8 + i % 8 >= left) pieces[i] = {0, 0, 0, 0};
			share();
			sync();
		}
		return ring + s * tile;
	};
	auto give = [&]() __attribute__((always_inline)) {
		sync_warp();
		if (lane == 0) barrier_arrive(empty + 8 * (n % STAGES));
		n++;
	};
	for (int index = blockx; index < items; index += gridx) {
		Item it = item_at(a, a.step + itemsAt + index * FEW_FIELDS, group, 16);
		load_queries<D>(a, it, 0, group, head, memory, threadx, warps * 32);
		sync();
		quad q[D / 16];
		UNROLL for (int k = 0; k < D / 16; k++)
			q[k] = load_matrices(shared_address(memory) + piece_at<D>(lane / 8 % 2, 2 * k + lane / 16) + lane % 8 * 16);
		Row row[2] = {row_at(a, it, g, group), row_at(a, it, g + 8, group)};
		float all[columns][4];
		float partTop[2] = {0, 0}, partSum[2] = {0, 0};
		// Scales of the lane's two keys of each tile and of their values. Those of a partition are asked for while the one
		// before it is being computed.
		u32 keyScales[TILES], valueScales[TILES];
		auto load_scales = [&](int p) __attribute__((always_inline)) {
			UNROLL for (int j = 0; j < TILES; j++) {
				int at = p * PARTITION + j * KEYS + warp * 8 + 2 * t;
				keyScales[j] = valueScales[j] = 0;
				if (at < it.begin || at >= it.limit) continue;
				u64 block = it.table[at / BLOCK_TOKENS] * blockStride + at % BLOCK_TOKENS * 2;
				keyScales[j] = *(const u32 *)(scalesAt + block);
				valueScales[j] = *(const u32 *)(scalesAt + block + valuesBehind);
			}
		};
		if (coded) load_scales(it.begin / PARTITION);
		for (int p = it.begin / PARTITION; p * PARTITION < it.limit; p++) {
			int from = first_tile(it, p), to = tiles(it, p);
			float s[TILES][4], top[2] = {-__builtin_inff(), -__builtin_inff()};
			UNROLL for (int j = 0; j < TILES; j++) {
				UNROLL for (int i = 0; i < 4; i++) s[j][i] = -__builtin_inff();
				if (j < from || j >= to) continue;
				u32 keys = take(it.limit - p * PARTITION - j * KEYS);
				UNROLL for (int i = 0; i < 4; i++) s[j][i] = 0;
				if constexpr (coded) {
					u32 block = keys + warp / 2 * blockBytes;
					if (p * PARTITION + j * KEYS + warp * 8 < it.limit) {
						UNROLL for (int k = 0; k < D / 64; k++) {
							quad b = load_shared(block + ((warp % 2 * (D / 64) + k) * 32 + lane) * 16);
							u32 words[4] = {b.x, b.y, b.z, b.w};
							UNROLL for (int i = 0; i < 4; i++)
								multiply_brain(s[j], q[4 * k + i], brains_of(TYPE, words[i]), brains_of(TYPE, words[i] << 8));
						}
					}
				} else {
					UNROLL for (int k = 0; k < D / 32; k++) {
						quad b = load_matrices(keys + piece_at<D>(warp, 4 * k) + lane * 16);
						multiply_brain(s[j], q[2 * k], b.x, b.y);
						multiply_brain(s[j], q[2 * k + 1], b.z, b.w);
					}
				}
				give();
				UNROLL for (int i = 0; i < 4; i++) {
					int key = j * KEYS + warp * 8 + 2 * t + i % 2;
					s[j][i] = weigh(a, row[i / 2], s[j][i], p * PARTITION + key, coded ? (u16)(keyScales[j] >> (i % 2 * 16)) : (u16)0);
					top[i / 2] = __builtin_fmaxf(top[i / 2], s[j][i]);
				}
			}
			UNROLL for (int i = 0; i < 2; i++) {
				top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 1));
				top[i] = __builtin_fmaxf(top[i], shuffle_xor(top[i], 2));
				if (t == 0) tops[warp][g + 8 * i] = top[i];
			}
			sync();
			float base[2], part[2] = {0, 0}, sum[2] = {0, 0};
			UNROLL for (int i = 0; i < 2; i++) {
				UNROLL for (int w = 0; w < warps; w++) top[i] = __builtin_fmaxf(top[i], tops[w][g + 8 * i]);
				base[i] = base_of(top[i]);
			}
			UNROLL for (int j = 0; j < TILES; j++) {
				UNROLL for (int i = 0; i < 4; i++) {
					float v = exp2_fast(s[j][i] - base[i / 2]);
					part[i / 2] += v;
					// What lies behind the context may be anything.
					if (coded) v = v == 0 ? 0 : v * from_brain((u16)(valueScales[j] >> (i % 2 * 16)));
					s[j][i] = v;
				}
				UNROLL for (int i = 0; i < 2; i++)
					*(u32 *)(memory + weightsAt + piece_at<PARTITION>(i, 8 * j + warp) + g * 16 + t * 4) = brain_pair(s[j][2 * i], s[j][2 * i + 1]);
			}
			if (coded && (p + 1) * PARTITION < it.limit) load_scales(p + 1);
			sums[warp][g][t] = part[0];
			sums[warp][g + 8][t] = part[1];
			sync();
			UNROLL for (int i = 0; i < 2; i++) {
				UNROLL for (int w = 0; w < warps; w++) sum[i] += sums[w][g + 8 * i][t];
				sum[i] += shuffle_xor(sum[i], 1);
				sum[i] += shuffle_xor(sum[i], 2);
			}
			float out[columns][4];
			UNROLL for (int c = 0; c < columns; c++) UNROLL for (int i = 0; i < 4; i++) out[c][i] = 0;
			UNROLL for (int j = 0; j < TILES; j++) {
				if (j < from || j >= to) continue;
				int left = it.limit - p * PARTITION - j * KEYS;
				u32 values = take(left);
				UNROLL for (int k = 0; k < KEYS / 16; k += 2) {
					if (coded && k * 16 >= left) break;
					quad l[2];
					UNROLL for (int i = 0; i < 2; i++)
						l[i] = load_matrices(shared_address(memory + weightsAt) + piece_at<PARTITION>(lane / 8 % 2, 8 * j + 2 * (k + i) + lane / 16) + lane % 8 * 16);
					if constexpr (coded) { // the lane's words of both blocks
						static_assert(D == 128 || D == 64);
						duo words[2] = {{0, 0}, {0, 0}};
						UNROLL for (int i = 0; i < 2; i++)
							if ((k + i) * 16 < left) words[i] = codes_of<D>(values + (k + i) * blockBytes, warp);
						UNROLL for (int i = 0; i < 2; i++) UNROLL for (int c = 0; c < columns; c++) {
							u32 w = c ? words[i].y : words[i].x;
							multiply_brain(out[c], l[i], brains_of(TYPE, w), brains_of(TYPE, w << 8));
						}
						continue;
					}
					UNROLL for (int c = 0; c < columns; c++) { // four eights of keys of eight columns
						quad b = load_matrices_turned(values + piece_at<D>(2 * k + lane / 8, warp * columns + c) + lane % 8 * 16);
						multiply_brain(out[c], l[0], b.x, b.y);
						multiply_brain(out[c], l[1], b.z, b.w);
					}
				}
				give();
			}
			UNROLL for (int i = 0; i < 2; i++) {
				partTop[i] = top[i], partSum[i] = sum[i];
				if (sum[i] == 0) continue;
				float left = 0, right = 1;
				State now = {top[i], sum[i]};
				bool again = row[i].begun;
				if (again) merge(&row[i].all, now, &left, &right);
				else row[i].all = now;
				row[i].begun = true;
				UNROLL for (int c = 0; c < columns; c++) UNROLL for (int e = 2 * i; e < 2 * i + 2; e++)
					all[c][e] = again ? __builtin_fmaf(all[c][e], left, out[c][e] * right) : out[c][e];
			}
		}
		put_few<columns>(a, it, group, head, row, all, partTop, partSum);
	}
}

#define ATTEND_BULK(name, d, stages, type) \
	BOUNDED(288, 2) void name(AttendArgs a) { attend_bulk<d, stages, type>(a); }
