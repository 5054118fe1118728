// Reads rows of matrices in the layout of weights.cuh.
#include "weights.cuh"

struct EmbedArgs {
	float *dst;
	const u8 *table;
	const int *step;
	int cols, type;
	float scale;
	int vocab;
};

// embed sets a row to that of its token: one block of threads for each row and 256 columns.
KERNEL(256) void embed(EmbedArgs a) {
	begin();
	int row = blockx;
	if (row >= a.step[STEP_ROWS]) return;
	int token = a.step[a.step[AT_TOKENS] + row];
	for (int c = blocky * 256 + threadx; c < a.cols; c += gridy * 256)
		a.dst[(u64)row * a.cols + c] = element(a.type, a.table, a.cols, token, c) * a.scale;
}

struct WidenArgs {
	float *dst;
	const u8 *table;
	int rows, cols, type;
};

// widen writes a matrix as float32.
KERNEL(256) void widen(WidenArgs a) {
	begin();
	u64 n = (u64)a.rows * a.cols;
	for (u64 i = (u64)blockx * 256 + threadx; i < n; i += (u64)gridx * 256)
		a.dst[i] = element(a.type, a.table, a.cols, (int)(i / a.cols), (int)(i % a.cols));
}
