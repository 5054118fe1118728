// Products of BF16 matrices on Hopper. The stages are as in kernels.go.
#include "few90.cuh"
#include "linear90.cuh"

FEW90(linear_bf16_8, BF16, 1, 3, 4)
FEW90(linear_bf16_16, BF16, 2, 5, 2)
FEW90(linear_bf16_32, BF16, 4, 4, 2)
FEW90(linear_bf16_64, BF16, 8, 3, 2)
LINEAR90(linear_bf16_128, BF16, 1, 128, 4, false)
LINEAR90(linear_bf16_256, BF16, 2, 256, 4, false)
PAIR90(pair_bf16_8, BF16, 1, 3, 2)
PAIR90(pair_bf16_16, BF16, 2, 3, 2)
PAIR90(pair_bf16_32, BF16, 4, 5, 1)
PAIR90(pair_bf16_64, BF16, 8, 4, 1)
LINEAR90(pair_bf16_128, BF16, 2, 128, 4, true)
