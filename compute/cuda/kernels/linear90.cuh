// Products of 16-bit matrices with many rows, by the warpgroup instructions of
// Hopper (sm_90a), both sides in shared memory. The bits are those of linear16.cuh: the same
// chain of sixteens of columns.
#pragma once
#include "async90.cuh"
#include "group90.cuh"
#include "linear.cuh"

// c += a·b with a of 64x16 and b of 16x128 in shared memory.
template <int TYPE> FORCE void multiply_group_128(float *c, u64 a, u64 b) {
	if (TYPE == BF16)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]) : "l"(a), "l"(b));
	else
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, %64, %65, p, 1, 1, 0, 0;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]) : "l"(a), "l"(b));
}

// c += a·b with a of 64x16 and b of 16x256 in shared memory.
template <int TYPE> FORCE void multiply_group_256(float *c, u64 a, u64 b) {
	if (TYPE == BF16)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, 0, 0;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127]) : "l"(a), "l"(b));
	else
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, 0, 0;\n}\n"
			: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63]), "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67]), "+f"(c[68]), "+f"(c[69]), "+f"(c[70]), "+f"(c[71]), "+f"(c[72]), "+f"(c[73]), "+f"(c[74]), "+f"(c[75]), "+f"(c[76]), "+f"(c[77]), "+f"(c[78]), "+f"(c[79]), "+f"(c[80]), "+f"(c[81]), "+f"(c[82]), "+f"(c[83]), "+f"(c[84]), "+f"(c[85]), "+f"(c[86]), "+f"(c[87]), "+f"(c[88]), "+f"(c[89]), "+f"(c[90]), "+f"(c[91]), "+f"(c[92]), "+f"(c[93]), "+f"(c[94]), "+f"(c[95]), "+f"(c[96]), "+f"(c[97]), "+f"(c[98]), "+f"(c[99]), "+f"(c[100]), "+f"(c[101]), "+f"(c[102]), "+f"(c[103]), "+f"(c[104]), "+f"(c[105]), "+f"(c[106]), "+f"(c[107]), "+f"(c[108]), "+f"(c[109]), "+f"(c[110]), "+f"(c[111]), "+f"(c[112]), "+f"(c[113]), "+f"(c[114]), "+f"(c[115]), "+f"(c[116]), "+f"(c[117]), "+f"(c[118]), "+f"(c[119]), "+f"(c[120]), "+f"(c[121]), "+f"(c[122]), "+f"(c[123]), "+f"(c[124]), "+f"(c[125]), "+f"(c[126]), "+f"(c[127]) : "l"(a), "l"(b));
}

// How both sides lie in shared memory: pieces of 8 rows and 8 columns of 128 bytes, 128
// bytes to the next 8 columns, 1024 to the next 8 rows.
FORCE u64 pieces_at(u32 address) { return (u64)(address >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32; }

// A block of threads computes tile after tile: GROUPS warpgroups of 64 outputs each
// for ROWS rows; of a pair, 64 of both matrices. One thread more copies 64 columns
// at a time through a ring of STAGES.
template <int TYPE, int GROUPS, int ROWS, int STAGES, bool PAIR> FORCE void linear90(const LinearArgs &a) {
	enum { sides = PAIR ? 2 : 1, rowsAt = sides * GROUPS * GROUP_BYTES, stage = rowsAt + ROWS * 128 };
	extern __shared__ __attribute__((aligned(128))) u8 ring[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	begin();
	u32 base = shared_address(ring), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, GROUPS * 4);
	int group = threadx / 128, lane = threadx % 32, all = a.mtiles * a.ntiles;
	// Blocks that run at the same time share strips and rows: eight tiles of
	// outputs side by side go through all rows.
	auto find = [&](int id, Place *p) __attribute__((always_inline)) {
		const int side = 8;
		int span = a.ntiles * side, g = id / span, width = least(side, a.mtiles - g * side);
		id -= g * span;
		return place_at<GROUPS * 64, ROWS, PAIR>(a, g * side + id % width, id / width, p);
	};
	if (group == GROUPS) {
		if (GROUPS > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadx % 128 > 0) return;
		int step = 0;
		for (int id = blockx; id < all; id += gridx) {
			Place p;
			if (!find(id, &p)) continue;
			const u8 *w[GROUPS], *up[GROUPS], *x = a.x + (u64)(p.row / 8) * 1024;
			UNROLL for (int i = 0; i < GROUPS; i++) {
				int strip = least(p.strip / 4 + i, ROUND_UP(p.outputs, 64) / 64 - 1) * 4;
				w[i] = p.w + record16_at(strip, a.records, 0);
				if (PAIR) up[i] = p.up + record16_at(strip, a.records, 0);
			}
			for (int k = 0; k < a.records; k++, step++) {
				int s = step % STAGES;
				u32 to = base + s * stage, barrier = full + 8 * s;
				if (step >= STAGES) barrier_wait(empty + 8 * s, (step / STAGES - 1) & 1);
				barrier_expect(barrier, stage);
				UNROLL for (int i = 0; i < GROUPS; i++) {
					copy_bulk(to + i * sides * GROUP_BYTES, w[i] + (u64)k * GROUP_BYTES, GROUP_BYTES, barrier);
					if (PAIR) copy_bulk(to + (i * 2 + 1) * GROUP_BYTES, up[i] + (u64)k * GROUP_BYTES, GROUP_BYTES, barrier);
				}
				copy_bulk(to + rowsAt, x + (u64)k * a.rowTiles * 1024, ROWS * 128, barrier);
			}
		}
		return;
	}
	if (GROUPS > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
	int step = 0;
	for (int id = blockx; id < all; id += gridx) {
		Place p;
		if (!find(id, &p)) continue;
		float sums[sides][ROWS / 2];
		UNROLL for (int i = 0; i < sides; i++) UNROLL for (int j = 0; j < ROWS / 2; j++) sums[i][j] = 0;
		// A stage is given back when the one after it is being multiplied.
		for (int k = 0; k < a.records; k++, step++) {
			int s = step % STAGES;
			barrier_wait(full + 8 * s, step / STAGES & 1);
			u64 left = pieces_at(base + s * stage + group * sides * GROUP_BYTES), right = pieces_at(base + s * stage + rowsAt);
			group_fence();
			UNROLL for (int i = 0; i < 4; i++) {
				UNROLL for (int side = 0; side < sides; side++) {
					u64 l = left + side * (GROUP_BYTES / 16) + i * 16, r = right + i * 16;
					if constexpr (ROWS == 256) multiply_group_256<TYPE>(sums[side], l, r);
					else multiply_group_128<TYPE>(sums[side], l, r);
				}
			}
			group_commit();
			group_wait<1>();
			sync_warp();
			if (k > 0 && lane == 0) barrier_arrive(empty + 8 * ((step - 1) % STAGES));
		}
		group_wait<0>();
		sync_warp();
		if (lane == 0) barrier_arrive(empty + 8 * ((step - 1) % STAGES));
		int output = (p.strip + group * 4 + threadx % 128 / 32) * 16;
		if (!PAIR && TYPE == BF16 && p.row + ROWS <= p.count && output + 16 <= p.outputs && !p.bias) {
			float *to = p.out + (u64)(p.row + lane % 4 * 2) * p.ld + output + lane / 4;
			UNROLL for (int n = 0; n < ROWS / 8; n++, to += (u64)8 * p.ld) {
				to[0] = sums[0][4 * n], to[p.ld] = sums[0][4 * n + 1];
				to[8] = sums[0][4 * n + 2], to[p.ld + 8] = sums[0][4 * n + 3];
			}
			continue;
		}
		UNROLL for (int n = 0; n < ROWS / 8; n++) {
			int row = p.row + n * 8;
			if constexpr (PAIR) store_pair(a, p, sums[0] + 4 * n, sums[1] + 4 * n, output, row);
			else store_tile(p, sums[0] + 4 * n, output, row, TYPE == F16 ? a.scales : 0);
		}
	}
}

#define LINEAR90(name, type, groups, rows, stages, pair) \
	BOUNDED(groups * 128 + 128, 1) void name(LinearArgs a) { linear90<type, groups, rows, stages, pair>(a); }
