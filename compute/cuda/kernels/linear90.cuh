// Products of 16-bit matrices with many rows, by the warpgroup instructions of
// Hopper (sm_90a), both sides in shared memory. The bits are those of linear16.cuh: the same
// chain of sixteens of columns.
#pragma once
#include "async90.cuh"
#include "group90.cuh"
#include "linear.cuh"

// Operands of asm in eights: their numbers, and as sums.
#define REGISTERS_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define REGISTERS_1 REGISTERS_0 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define REGISTERS_2 REGISTERS_1 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define REGISTERS_3 REGISTERS_2 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define REGISTERS_4 REGISTERS_3 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define REGISTERS_5 REGISTERS_4 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define REGISTERS_6 REGISTERS_5 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define REGISTERS_7 REGISTERS_6 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define REGISTERS_8 REGISTERS_7 ",%64,%65,%66,%67"
#define REGISTERS_15 REGISTERS_7 \
	",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95" \
	",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119" \
	",%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]), "+f"(c[i + 7])
#define SUMS_1 SUMS(0), SUMS(8)
#define SUMS_3 SUMS_1, SUMS(16), SUMS(24)
#define SUMS_5 SUMS_3, SUMS(32), SUMS(40)
#define SUMS_6 SUMS_5, SUMS(48)
#define SUMS_7 SUMS_6, SUMS(56)
#define SUMS_8 SUMS_7, "+f"(c[64]), "+f"(c[65]), "+f"(c[66]), "+f"(c[67])
#define SUMS_15 SUMS_7, SUMS(64), SUMS(72), SUMS(80), SUMS(88), SUMS(96), SUMS(104), SUMS(112), SUMS(120)
#define MULTIPLY_GROUP(type, rows, last, a_, b_) \
	asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n" #rows "k16.f32." type "." type " {" REGISTERS_##last \
		"}, %" #a_ ", %" #b_ ", p, 1, 1, 0, 0;\n}\n" : SUMS_##last : "l"(a), "l"(b))

// c += a·b with a of 64x16 and b of 16xROWS in shared memory.
template <int TYPE, int ROWS> FORCE void multiply_group(float *c, u64 a, u64 b) {
#define MULTIPLY_ROWS(rows, last, a_, b_) \
	if constexpr (ROWS == rows && TYPE == BF16) MULTIPLY_GROUP("bf16", rows, last, a_, b_); \
	if constexpr (ROWS == rows && TYPE == F16) MULTIPLY_GROUP("f16", rows, last, a_, b_)
	MULTIPLY_ROWS(32, 1, 16, 17);
	MULTIPLY_ROWS(64, 3, 32, 33);
	MULTIPLY_ROWS(96, 5, 48, 49);
	MULTIPLY_ROWS(112, 6, 56, 57);
	MULTIPLY_ROWS(128, 7, 64, 65);
	MULTIPLY_ROWS(136, 8, 68, 69);
	MULTIPLY_ROWS(256, 15, 128, 129);
}

// How both sides lie in shared memory: pieces of 8 rows and 8 columns of 128 bytes, 128
// bytes to the next 8 columns, 1024 to the next 8 rows.
FORCE u64 pieces_at(u32 address) { return (u64)(address >> 4 & 0x3fff) | (u64)(128 >> 4) << 16 | (u64)(1024 >> 4) << 32; }

// A block of threads computes tile after tile: two warpgroups of 64 outputs each
// for ROWS rows; of a pair, 64 of both matrices. One thread more copies 64 columns
// at a time through a ring of STAGES.
template <int TYPE, int ROWS, int STAGES, bool PAIR> FORCE void linear90(const LinearArgs &a) {
	enum { groups = 2, sides = PAIR ? 2 : 1, rowsAt = sides * groups * GROUP_BYTES, stage = rowsAt + ROWS * 128 };
	extern __shared__ __attribute__((aligned(128))) u8 ring[];
	__shared__ __attribute__((aligned(8))) u64 barriers[2 * STAGES];
	begin();
	u32 base = shared_address(ring), full = shared_address(barriers), empty = full + 8 * STAGES;
	open_barriers<STAGES>(full, groups * 4);
	int group = threadx / 128, lane = threadx % 32, all = a.mtiles * a.ntiles;
	// Blocks that run at the same time share strips and rows: eight tiles of
	// outputs side by side go through all rows.
	auto find = [&](int id, Place *p) __attribute__((always_inline)) {
		const int side = 8;
		int span = a.ntiles * side, g = id / span, width = least(side, a.mtiles - g * side);
		id -= g * span;
		return place_at<groups * 64, ROWS, PAIR>(a, g * side + id % width, id / width, p);
	};
	if (group == groups) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadx % 128 > 0) return;
		int step = 0;
		for (int id = blockx; id < all; id += gridx) {
			Place p;
			if (!find(id, &p)) continue;
			const u8 *w[groups], *up[groups], *x = a.x + (u64)(p.row / 8) * 1024;
			UNROLL for (int i = 0; i < groups; i++) {
				int strip = least(p.strip / 4 + i, ROUND_UP(p.outputs, 64) / 64 - 1) * 4;
				w[i] = p.w + record16_at(strip, a.records, 0);
				if (PAIR) up[i] = p.up + record16_at(strip, a.records, 0);
			}
			for (int k = 0; k < a.records; k++, step++) {
				int s = step % STAGES;
				u32 to = base + s * stage, barrier = full + 8 * s;
				if (step >= STAGES) barrier_wait(empty + 8 * s, (step / STAGES - 1) & 1);
				barrier_expect(barrier, stage);
				UNROLL for (int i = 0; i < groups; i++) {
					copy_bulk(to + i * sides * GROUP_BYTES, w[i] + (u64)k * GROUP_BYTES, GROUP_BYTES, barrier);
					if (PAIR) copy_bulk(to + (i * 2 + 1) * GROUP_BYTES, up[i] + (u64)k * GROUP_BYTES, GROUP_BYTES, barrier);
				}
				copy_bulk(to + rowsAt, x + (u64)k * a.rowTiles * 1024, ROWS * 128, barrier);
			}
		}
		return;
	}
	asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
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
			UNROLL for (int i = 0; i < 4; i++)
				UNROLL for (int side = 0; side < sides; side++)
					multiply_group<TYPE, ROWS>(sums[side], left + side * (GROUP_BYTES / 16) + i * 16, right + i * 16);
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

#define LINEAR90(name, type, rows, stages, pair) \
	BOUNDED(3 * 128, 1) void name(LinearArgs a) { linear90<type, rows, stages, pair>(a); }
