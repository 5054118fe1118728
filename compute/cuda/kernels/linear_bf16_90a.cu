// Products of BF16 matrices with many rows on Hopper.
#include "linear90.cuh"

LINEAR90(linear_bf16_wide, BF16, 1, 128, 6)
LINEAR90(linear_bf16_256, BF16, 2, 256, 4)
