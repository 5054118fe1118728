// Products of E4M3 matrices with rows of E4M3 numbers by the warpgroup instructions of Hopper.
// These add with fewer bits than float32 has, so each chain ends after the 128 columns of a record,
// and is added to the others with the scales of both sides.
#pragma once
#include "async90.cuh"
#include "linear.cuh"

// The operands of asm in eights.
#define EIGHT_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define EIGHT_1 EIGHT_0 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define EIGHT_3 EIGHT_1 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define EIGHT_7 EIGHT_3 \
	",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PARTS_4(c) "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])
#define PARTS_8(c) PARTS_4(c), PARTS_4((c) + 4)
#define PARTS_16(c) PARTS_8(c), PARTS_8((c) + 8)
#define PARTS_32(c) PARTS_16(c), PARTS_16((c) + 16)
#define PARTS_64(c) PARTS_32(c), PARTS_32((c) + 32)
#define EIGHT_STEP(rows, to, left, right, more) \
	"wgmma.mma_async.sync.aligned.m64n" #rows "k32.f32.e4m3.e4m3 {" to "}, " left ", " right ", " more ", 1, 1;\n"
#define EIGHT_NEXT(rows, to, left, right, by) \
	"add.s64 a, " left ", " by ";\nadd.s64 b, " right ", " by ";\n" EIGHT_STEP(rows, to, "a", "b", "q")
#define EIGHT_CHAIN(rows, to, left, right) \
	"{\n.reg .pred p, q;\n.reg .b64 a, b;\nsetp.ne.b32 p, 0, 0;\nsetp.eq.b32 q, 0, 0;\nwgmma.fence.sync.aligned;\n" \
	EIGHT_STEP(rows, to, left, right, "p") EIGHT_NEXT(rows, to, left, right, "16") EIGHT_NEXT(rows, to, left, right, "32") \
		EIGHT_NEXT(rows, to, left, right, "48") "wgmma.commit_group.sync.aligned;\n}\n"

// begin_eight begins c = a·b with a of 64x128 and b of 128xROWS in shared memory: one piece of assembly, since the compiler
// would copy registers between its instructions. end_eight waits until all but LATER products that were begun later are
// done; until then c may not be touched.
template <int ROWS> FORCE void begin_eight(float *c, u64 a, u64 b) {
#define BEGIN_EIGHT(rows, to, left, right, parts) \
	if constexpr (ROWS == rows) asm volatile(EIGHT_CHAIN(rows, to, left, right) : parts(c) : "l"(a), "l"(b) : "memory")
	BEGIN_EIGHT(8, "%0,%1,%2,%3", "%4", "%5", PARTS_4);
	BEGIN_EIGHT(16, EIGHT_0, "%8", "%9", PARTS_8);
	BEGIN_EIGHT(32, EIGHT_1, "%16", "%17", PARTS_16);
	BEGIN_EIGHT(64, EIGHT_3, "%32", "%33", PARTS_32);
	BEGIN_EIGHT(128, EIGHT_7, "%64", "%65", PARTS_64);
}
template <int ROWS, int LATER> FORCE void end_eight(float *c) {
#define END_EIGHT(rows, later, parts) \
	if constexpr (ROWS == rows) asm volatile("wgmma.wait_group.sync.aligned " later ";" : parts(c) : "n"(LATER) : "memory")
	END_EIGHT(8, "%4", PARTS_4);
	END_EIGHT(16, "%8", PARTS_8);
	END_EIGHT(32, "%16", PARTS_16);
	END_EIGHT(64, "%32", PARTS_32);
	END_EIGHT(128, "%64", PARTS_64);
}

// How a side lies in shared memory: pieces of 8 rows and 16 columns of 128 bytes, 128 bytes to the next
// 16 columns, stride to the next 8 rows.
FORCE u64 eights_at(u32 address, int stride) {
	return (u64)(address >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(stride >> 4) << 32;
}

// A block of threads computes tile after tile: GROUPS warpgroups of 64 outputs each for ROWS rows. One
// warp more copies a record at a time through a ring of STAGES. With two groups it is the first of a third
// one, so that registers can be divided unevenly.
template <int GROUPS, int ROWS, int STAGES> FORCE void eight90(const LinearArgs &a) {
	enum { rowsAt = GROUPS * EIGHT_BYTES, rowsBytes = ROWS / 8 * EIGHT_UNIT, stage = rowsAt + rowsBytes };
	extern __shared__ __attribute__((aligned(128))) u8 memory[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	if (a.tiles) wait_before();
	u32 base = shared_address(memory), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, GROUPS * 4);
	int warp = threadx / 32, lane = threadx % 32, all = a.mtiles * a.ntiles;
	// Blocks that run at the same time share strips and rows: eight tiles of
	// outputs side by side go through all rows.
	auto find = [&](int id, Place *p) __attribute__((always_inline)) {
		const int side = 8;
		int span = a.ntiles * side, g = id / span, width = least(side, a.mtiles - g * side);
		id -= g * span;
		return place_at<GROUPS * 64, ROWS, false>(a, g * side + id % width, id / width, p);
	};
	if (warp >= GROUPS * 4) {
		if constexpr (GROUPS == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (warp > GROUPS * 4) return;
		int step = 0;
		bool waited = false;
		for (int id = blockx; id < all; id += gridx) {
			Place p;
			if (!find(id, &p)) continue;
			// What a lane copies: weights of a warpgroup, and the last one rows.
			int group = least(p.strip / 4 + lane, ROUND_UP(p.outputs, 64) / 64 - 1);
			const u8 *w = p.w + (u64)group * a.records * EIGHT_BYTES, *x = a.x + (u64)(p.row / 8) * EIGHT_UNIT;
			auto weights = [&](int k) __attribute__((always_inline)) {
				int s = (step + k) % STAGES;
				if (lane == 0) barrier_expect(full + 8 * s, stage);
				sync_warp();
				if (lane < GROUPS) copy_bulk(base + s * stage + lane * EIGHT_BYTES, w + (u64)k * EIGHT_BYTES, EIGHT_BYTES, full + 8 * s);
			};
			int early = 0; // stages whose weights come while the kernel before still runs
			if (!waited) {
				early = least(STAGES, a.records);
				for (int k = 0; k < early; k++) weights(k);
				wait_before();
				waited = true;
			}
			for (int k = 0; k < a.records; k++) {
				int s = (step + k) % STAGES;
				if (k >= early) {
					if (step + k >= STAGES) barrier_wait(empty + 8 * s, ((step + k) / STAGES - 1) & 1);
					weights(k);
				}
				if (lane == 0) copy_bulk(base + s * stage + rowsAt, x + (u64)k * a.rowTiles * EIGHT_UNIT, rowsBytes, full + 8 * s);
			}
			step += a.records;
		}
		start_next(); // not earlier: its weights would delay those of this kernel
		if (!waited) wait_before();
		return;
	}
	if constexpr (GROUPS == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
	wait_before();
	int group = warp / 4, g = lane / 4, t = lane % 4, step = 0;
	for (int id = blockx; id < all; id += gridx) {
		Place p;
		if (!find(id, &p)) continue;
		float sums[ROWS / 2];
		UNROLL for (int i = 0; i < ROWS / 2; i++) sums[i] = 0;
		// begin multiplies what a step brought, add brings the sum of its chain to the others.
		auto begin = [&](int step, float *part) __attribute__((always_inline)) {
			int s = step % STAGES;
			barrier_wait(full + 8 * s, step / STAGES & 1);
			begin_eight<ROWS>(part, eights_at(base + s * stage + group * EIGHT_BYTES, 1024), eights_at(base + s * stage + rowsAt, EIGHT_UNIT));
		};
		auto add = [&](int step, const float *part) __attribute__((always_inline)) {
			int s = step % STAGES;
			const u8 *at = memory + s * stage;
			const float *scales = (const float *)(at + group * EIGHT_BYTES + EIGHT_SCALES) + warp % 4 * 16 + g;
			float mine[2] = {scales[0], scales[8]};
			UNROLL for (int n = 0; n < ROWS / 8; n++) {
				const float *rows = (const float *)(at + rowsAt + n * EIGHT_UNIT + EIGHT_UNIT_SCALES) + 2 * t;
				float theirs[2] = {rows[0], rows[1]}, *sum = sums + 4 * n;
				UNROLL for (int i = 0; i < 4; i++) sum[i] = __builtin_fmaf(part[4 * n + i], mine[i / 2] * theirs[i % 2], sum[i]);
			}
			sync_warp();
			if (lane == 0) barrier_arrive(empty + 8 * s);
		};
		float parts[2][ROWS / 2];
		UNROLL for (int i = 0; i < ROWS / 2; i++) parts[0][i] = parts[1][i] = 0;
		// While one is added, the next is multiplied. A loop may not end between: the compiler would have the tensor
		// cores wait for each chain.
		const int chains = 4;
		int k = 0;
		for (; k + chains <= a.records; k += chains, step += chains) {
			begin(step, parts[0]);
			UNROLL for (int i = 1; i < chains; i++) {
				begin(step + i, parts[i % 2]);
				end_eight<ROWS, 1>(parts[1 - i % 2]);
				add(step + i - 1, parts[1 - i % 2]);
			}
			end_eight<ROWS, 0>(parts[1]);
			add(step + chains - 1, parts[1]);
		}
		for (; k < a.records; k++, step++) {
			begin(step, parts[0]);
			end_eight<ROWS, 0>(parts[0]);
			add(step, parts[0]);
		}
		int output = (p.strip + warp) * 16;
		UNROLL for (int n = 0; n < ROWS / 8; n++) store_tile(p, sums + 4 * n, output, p.row + n * 8, 0);
	}
}

#define EIGHT90(groups, rows, stages, blocks) \
	BOUNDED(groups == 2 ? 384 : 160, blocks) void linear_f8_##rows##_##groups(LinearArgs a) { eight90<groups, rows, stages>(a); }
