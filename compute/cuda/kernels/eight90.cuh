// Products of E4M3 matrices with rows of E4M3 numbers by the warpgroup instructions of Hopper.
// These add with fewer bits than float32 has, so each chain ends after the 128 columns of a record,
// and is added to the others with the scales of both sides.
#pragma once
#include "async90.cuh"
#include "linear.cuh"

// c = a·b with a of 64x128 and b of 128xROWS in shared memory: one piece of assembly, since the compiler would copy
// registers between its instructions.
template <int ROWS> FORCE void multiply_eight(float *c, u64 a, u64 b) {
	if constexpr (ROWS == 8)
		asm volatile("{\n.reg .pred p, q;\n.reg .b64 a, b;\nsetp.ne.b32 p, 0, 0;\nsetp.eq.b32 q, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, %4, %5, p, 1, 1;\nadd.s64 a, %4, 16;\nadd.s64 b, %5, 16;\nwgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, a, b, q, 1, 1;\nadd.s64 a, %4, 32;\nadd.s64 b, %5, 32;\nwgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, a, b, q, 1, 1;\nadd.s64 a, %4, 48;\nadd.s64 b, %5, 48;\nwgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, a, b, q, 1, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}\n"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]) : "l"(a), "l"(b) : "memory");
	if constexpr (ROWS == 16)
		asm volatile("{\n.reg .pred p, q;\n.reg .b64 a, b;\nsetp.ne.b32 p, 0, 0;\nsetp.eq.b32 q, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1;\nadd.s64 a, %8, 16;\nadd.s64 b, %9, 16;\nwgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7}, a, b, q, 1, 1;\nadd.s64 a, %8, 32;\nadd.s64 b, %9, 32;\nwgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7}, a, b, q, 1, 1;\nadd.s64 a, %8, 48;\nadd.s64 b, %9, 48;\nwgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7}, a, b, q, 1, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}\n"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7]) : "l"(a), "l"(b) : "memory");
	if constexpr (ROWS == 32)
		asm volatile("{\n.reg .pred p, q;\n.reg .b64 a, b;\nsetp.ne.b32 p, 0, 0;\nsetp.eq.b32 q, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1;\nadd.s64 a, %16, 16;\nadd.s64 b, %17, 16;\nwgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, a, b, q, 1, 1;\nadd.s64 a, %16, 32;\nadd.s64 b, %17, 32;\nwgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, a, b, q, 1, 1;\nadd.s64 a, %16, 48;\nadd.s64 b, %17, 48;\nwgmma.mma_async.sync.aligned.m64n32k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, a, b, q, 1, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}\n"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7]), "=f"(c[8]), "=f"(c[9]), "=f"(c[10]), "=f"(c[11]), "=f"(c[12]), "=f"(c[13]), "=f"(c[14]), "=f"(c[15]) : "l"(a), "l"(b) : "memory");
	if constexpr (ROWS == 64)
		asm volatile("{\n.reg .pred p, q;\n.reg .b64 a, b;\nsetp.ne.b32 p, 0, 0;\nsetp.eq.b32 q, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1;\nadd.s64 a, %32, 16;\nadd.s64 b, %33, 16;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, a, b, q, 1, 1;\nadd.s64 a, %32, 32;\nadd.s64 b, %33, 32;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, a, b, q, 1, 1;\nadd.s64 a, %32, 48;\nadd.s64 b, %33, 48;\nwgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, a, b, q, 1, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}\n"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7]), "=f"(c[8]), "=f"(c[9]), "=f"(c[10]), "=f"(c[11]), "=f"(c[12]), "=f"(c[13]), "=f"(c[14]), "=f"(c[15]), "=f"(c[16]), "=f"(c[17]), "=f"(c[18]), "=f"(c[19]), "=f"(c[20]), "=f"(c[21]), "=f"(c[22]), "=f"(c[23]), "=f"(c[24]), "=f"(c[25]), "=f"(c[26]), "=f"(c[27]), "=f"(c[28]), "=f"(c[29]), "=f"(c[30]), "=f"(c[31]) : "l"(a), "l"(b) : "memory");
	if constexpr (ROWS == 128)
		asm volatile("{\n.reg .pred p, q;\n.reg .b64 a, b;\nsetp.ne.b32 p, 0, 0;\nsetp.eq.b32 q, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1;\nadd.s64 a, %64, 16;\nadd.s64 b, %65, 16;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, a, b, q, 1, 1;\nadd.s64 a, %64, 32;\nadd.s64 b, %65, 32;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, a, b, q, 1, 1;\nadd.s64 a, %64, 48;\nadd.s64 b, %65, 48;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, a, b, q, 1, 1;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n}\n"
			: "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7]), "=f"(c[8]), "=f"(c[9]), "=f"(c[10]), "=f"(c[11]), "=f"(c[12]), "=f"(c[13]), "=f"(c[14]), "=f"(c[15]), "=f"(c[16]), "=f"(c[17]), "=f"(c[18]), "=f"(c[19]), "=f"(c[20]), "=f"(c[21]), "=f"(c[22]), "=f"(c[23]), "=f"(c[24]), "=f"(c[25]), "=f"(c[26]), "=f"(c[27]), "=f"(c[28]), "=f"(c[29]), "=f"(c[30]), "=f"(c[31]), "=f"(c[32]), "=f"(c[33]), "=f"(c[34]), "=f"(c[35]), "=f"(c[36]), "=f"(c[37]), "=f"(c[38]), "=f"(c[39]), "=f"(c[40]), "=f"(c[41]), "=f"(c[42]), "=f"(c[43]), "=f"(c[44]), "=f"(c[45]), "=f"(c[46]), "=f"(c[47]), "=f"(c[48]), "=f"(c[49]), "=f"(c[50]), "=f"(c[51]), "=f"(c[52]), "=f"(c[53]), "=f"(c[54]), "=f"(c[55]), "=f"(c[56]), "=f"(c[57]), "=f"(c[58]), "=f"(c[59]), "=f"(c[60]), "=f"(c[61]), "=f"(c[62]), "=f"(c[63]) : "l"(a), "l"(b) : "memory");
}

// How a side lies in shared memory: pieces of 8 rows and 16 columns of 128 bytes, 128 bytes to the next
// 16 columns, stride to the next 8 rows.
FORCE u64 eights_at(u32 address, int stride) {
	return (u64)(address >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(stride >> 4) << 32;
}

// A block of threads computes tile after tile: GROUPS warpgroups of 64 outputs each for ROWS rows. One
// warp more copies a record at a time through a ring of STAGES.
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
	if (warp == GROUPS * 4) {
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
	wait_before();
	int group = warp / 4, g = lane / 4, t = lane % 4, step = 0;
	for (int id = blockx; id < all; id += gridx) {
		Place p;
		if (!find(id, &p)) continue;
		float sums[ROWS / 2];
		UNROLL for (int i = 0; i < ROWS / 2; i++) sums[i] = 0;
		for (int k = 0; k < a.records; k++, step++) {
			int s = step % STAGES;
			barrier_wait(full + 8 * s, step / STAGES & 1);
			u64 left = eights_at(base + s * stage + group * EIGHT_BYTES, 1024), right = eights_at(base + s * stage + rowsAt, EIGHT_UNIT);
			const u8 *at = memory + s * stage;
			const float *scales = (const float *)(at + group * EIGHT_BYTES + EIGHT_SCALES) + warp % 4 * 16 + g;
			float mine[2] = {scales[0], scales[8]};
			float part[ROWS / 2];
			multiply_eight<ROWS>(part, left, right);
			UNROLL for (int n = 0; n < ROWS / 8; n++) {
				const float *rows = (const float *)(at + rowsAt + n * EIGHT_UNIT + EIGHT_UNIT_SCALES) + 2 * t;
				float theirs[2] = {rows[0], rows[1]}, *sum = sums + 4 * n;
				UNROLL for (int i = 0; i < 4; i++) sum[i] = __builtin_fmaf(part[4 * n + i], mine[i / 2] * theirs[i % 2], sum[i]);
			}
			sync_warp();
			if (lane == 0) barrier_arrive(empty + 8 * s);
		}
		int output = (p.strip + warp) * 16;
		UNROLL for (int n = 0; n < ROWS / 8; n++) store_tile(p, sums + 4 * n, output, p.row + n * 8, 0);
	}
}

#define EIGHT90(groups, rows, stages, blocks) \
	BOUNDED(groups * 128 + 32, blocks) void linear_f8_##rows##_##groups(LinearArgs a) { eight90<groups, rows, stages>(a); }
