// Products of F16 matrices on Hopper, named by rows and strips. The stages are as in kernels.go.
#include "few90.cuh"
#include "linear90.cuh"

FEW90(linear_f16_8_1, F16, 1, 1, 3, 8)
FEW90(linear_f16_8_2, F16, 2, 1, 4, 4)
FEW90(linear_f16_8_4, F16, 4, 1, 3, 4)
FEW90(linear_f16_16_2, F16, 2, 2, 3, 4)
FEW90(linear_f16_16_4, F16, 4, 2, 5, 2)
FEW90(linear_f16_32_2, F16, 2, 4, 5, 2)
FEW90(linear_f16_32_4, F16, 4, 4, 4, 2)
FEW90(linear_f16_64_2, F16, 2, 8, 4, 2)
FEW90(linear_f16_64_4, F16, 4, 8, 3, 2)
LINEAR90(linear_f16_64_8, F16, 64, 8, false)
LINEAR90(linear_f16_128_8, F16, 128, 6, false)
LINEAR90(linear_f16_256_8, F16, 256, 4, false)
