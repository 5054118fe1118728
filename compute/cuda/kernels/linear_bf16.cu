// Products of BF16 matrices.
#include "linear16.cuh"

LINEAR16(linear_bf16_8, BF16, 2, 1, 1, 1, 12)
LINEAR16(linear_bf16_16, BF16, 2, 1, 1, 2, 12)
LINEAR16(linear_bf16_32, BF16, 4, 1, 1, 4, 6)
LINEAR16(linear_bf16_64, BF16, 4, 1, 1, 8, 6)
LINEAR16(linear_bf16_128, BF16, 4, 2, 2, 8, 4)
