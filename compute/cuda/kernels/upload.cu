// Brings stored tensors into the layout of weights.cuh.
#include "weights.cuh"

struct ArrangeArgs {
	const u8 *stored; // rows as in the file
	u8 *records;      // of the strips that the rows fill
	int rows, cols;
};

// arrange16 moves 16-bit numbers: one thread for each word of the records of 64 rows.
KERNEL(256) void arrange16(ArrangeArgs a) {
	int records = ROUND_UP(a.cols, 64) / 64, groups = ROUND_UP(a.rows, GROUP_ROWS) / GROUP_ROWS * records;
	const u16 *stored = (const u16 *)a.stored;
	for (u64 i = (u64)blockx * 256 + threadx; i < (u64)groups * 2048; i += (u64)gridx * 256) {
		int group = (int)(i / 2048), at = i % 512;
		int row = group / records * GROUP_ROWS + i % 2048 / 512 * STRIP + at / 256 * 8 + at % 32 / 4;
		int col = group % records * 64 + at % 256 / 32 * 8 + at % 4 * 2;
		u32 v = 0;
		if (row < a.rows) {
			const u16 *from = stored + (u64)row * a.cols;
			if (col < a.cols) v = from[col];
			if (col + 1 < a.cols) v |= (u32)from[col + 1] << 16;
		}
		((u32 *)a.records)[i] = v;
	}
}

struct ArrangeEightArgs {
	ArrangeArgs of;
	const float *scales; // [rows][groups of 128 columns]
};

// arrange_f8 moves E4M3 codes and their scales: one thread for each word of the records of 64 rows.
KERNEL(256) void arrange_f8(ArrangeEightArgs args) {
	const ArrangeArgs &a = args.of;
	int records = ROUND_UP(a.cols, 128) / 128, groups = ROUND_UP(a.rows, GROUP_ROWS) / GROUP_ROWS * records;
	for (u64 i = (u64)blockx * 256 + threadx; i < (u64)groups * (EIGHT_BYTES / 4); i += (u64)gridx * 256) {
		int group = (int)(i / (EIGHT_BYTES / 4)), word = (int)(i % (EIGHT_BYTES / 4)), row0 = group / records * GROUP_ROWS;
		u32 v = 0;
		if (word >= EIGHT_SCALES / 4) {
			int row = row0 + word - EIGHT_SCALES / 4;
			if (row < a.rows) v = bits_of(args.scales[(u64)row * records + group % records]);
		} else {
			int row = row0 + word / 256 * 8 + word % 32 / 4, col = group % records * 128 + word % 256 / 32 * 16 + word % 4 * 4;
			for (int b = 0; b < 4; b++)
				if (row < a.rows && col + b < a.cols) v |= (u32)a.stored[(u64)row * a.cols + col + b] << (b * 8);
		}
		((u32 *)a.records)[i] = v;
	}
}

// The raw code of element i of a stored block.
template <int TYPE> FORCE int stored_code(const u8 *b, int i) {
	if (TYPE == Q8_0) return b[2 + i];
	if (TYPE == Q4_K || TYPE == Q5_K) {
		int g = i / 64, c = i % 32;
		int code = b[(TYPE == Q4_K ? 16 : 48) + g * 32 + c] >> (i % 64 / 32 * 4) & 15;
		if (TYPE == Q5_K) code |= (b[16 + c] >> (i / 32) & 1) << 4;
		return code;
	}
	if (TYPE == Q6_K) {
		int h = i / 128, c = i % 128, q = c / 32;
		int code = b[64 * h + c % 64] >> (q / 2 * 4) & 15;
		return code | (b[128 + 32 * h + c % 32] >> (2 * q) & 3) << 4;
	}
	int first = TYPE == Q4_0 ? 2 : TYPE == Q4_1 ? 4 : TYPE == Q5_0 ? 6 : 8;
	int code = b[first + i % 16] >> (i / 16 * 4) & 15;
	if (TYPE == Q5_0 || TYPE == Q5_1) code |= (b[first - 4 + i / 8] >> (i % 8) & 1) << 4;
	return code;
}

// The blocks of a record's row, or null where there is none.
template <int TYPE> FORCE const u8 *stored_block(const ArrangeArgs &a, int row, int col) {
	typedef Layout<TYPE> L;
	if (row >= a.rows || col >= a.cols) return 0;
	return a.stored + ((u64)row * (a.cols / L::len) + col / L::len) * L::stored;
}

template <int TYPE> FORCE void arrange_scales(const ArrangeArgs &a, u8 *record, int row0, int col0, int lane) {
	typedef Layout<TYPE> L;
	u8 *s = record + L::scales;
	if (L::len == 32) {
		const u8 *b = stored_block<TYPE>(a, row0 + lane % STRIP, col0 + lane / STRIP * 32);
		if (TYPE == Q4_1 || TYPE == Q5_1) ((u32 *)s)[lane] = b ? *(const u16 *)b | (u32)((const u16 *)b)[1] << 16 : 0;
		else ((u16 *)s)[lane] = b ? *(const u16 *)b : 0;
		return;
	}
	const u8 *b = stored_block<TYPE>(a, row0 + lane / 2, col0);
	for (int i = lane % 2 * 8; i < lane % 2 * 8 + 8; i++) s[lane / 2 * 16 + i] = b ? b[(TYPE == Q6_K ? 192 : 0) + i] : 0;
	if (TYPE == Q6_K && lane % 2 == 0) ((u16 *)(s + 256))[lane / 2] = b ? *(const u16 *)(b + 208) : 0;
}

// arrange_codes writes what one lane has of 64 columns of a record.
template <int TYPE> FORCE void arrange_codes(const ArrangeArgs &a, u8 *record, int row0, int col0, int sub, int lane) {
	typedef Layout<TYPE> L;
	u8 *high = record + L::rec / 64 * 512;
	for (int word = 0; word < 4; word++) {
		int row = row0 + lane / 4 + word % 2 * 8, col = col0 + sub * 64 + word / 2 * 32;
		const u8 *b = stored_block<TYPE>(a, row, col);
		u32 low = 0, codes[2] = {0, 0}, bits = 0;
		for (int at = 0; at < 8; at++) {
			int i = at / 4 * 16 + lane % 4 * 4 + at % 4;
			u32 code = b ? stored_code<TYPE>(b, (col + i) % L::len) : zero_of<TYPE>();
			codes[at / 4] |= (code & 255) << (at % 4 * 8);
			low |= (code & 15) << (at % 4 * 8 + at / 4 * 4);
			bits |= (code >> 4 & (L::high == 2 ? 3 : 1)) << (at * (L::high == 2 ? 2 : 1));
		}
		if (!L::nibbles) {
			u32 *to = (u32 *)(record + word / 2 * 512 + lane * 16) + word % 2;
			to[0] = codes[0];
			to[2] = codes[1];
			continue;
		}
		((u32 *)(record + sub * 512 + lane * 16))[word] = low;
		if (L::high == 1) high[sub * 128 + lane * 4 + word] = (u8)bits;
		if (L::high == 2) ((u16 *)(high + sub * 256 + lane * 8))[word] = (u16)bits;
	}
}

// One warp for each record.
template <int TYPE> FORCE void arrange(const ArrangeArgs &a) {
	typedef Layout<TYPE> L;
	int perStrip = ROUND_UP(a.cols, L::rec) / L::rec, records = ROUND_UP(a.rows, STRIP) / STRIP * perStrip, lane = threadx % 32;
	for (int r = blockx * 8 + threadx / 32; r < records; r += gridx * 8) {
		u8 *record = a.records + (u64)r * L::bytes;
		int row0 = r / perStrip * STRIP, col0 = r % perStrip * L::rec;
		for (int sub = 0; sub < L::rec / 64; sub++) arrange_codes<TYPE>(a, record, row0, col0, sub, lane);
		arrange_scales<TYPE>(a, record, row0, col0, lane);
	}
}

#define ARRANGE(name, type) KERNEL(256) void name(ArrangeArgs a) { arrange<type>(a); }
ARRANGE(arrange_q8_0, Q8_0)
ARRANGE(arrange_q4_0, Q4_0)
ARRANGE(arrange_q4_1, Q4_1)
ARRANGE(arrange_q5_0, Q5_0)
ARRANGE(arrange_q5_1, Q5_1)
ARRANGE(arrange_q4_k, Q4_K)
ARRANGE(arrange_q5_k, Q5_K)
ARRANGE(arrange_q6_k, Q6_K)
