// Products of BF16 matrices on Hopper.
#include "few90.cuh"
#include "linear90.cuh"

FEW90(linear_bf16_8, BF16, 1, 1, 6, 4)
FEW90(linear_bf16_8_tall, BF16, 2, 1, 4, 4)
FEW90(linear_bf16_16, BF16, 2, 2, 4, 4)
FEW90(linear_bf16_32, BF16, 4, 4, 4, 2)
FEW90(linear_bf16_64, BF16, 4, 8, 3, 2)
LINEAR90(linear_bf16_128, BF16, 1, 128, 6)
LINEAR90(linear_bf16_256, BF16, 2, 256, 4)
