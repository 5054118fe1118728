// Products of F16 matrices on Hopper. The stages are as in kernels.go.
#include "few90.cuh"
#include "linear90.cuh"

FEW90(linear_f16_8, F16, 1, 3, 4)
FEW90(linear_f16_16, F16, 2, 5, 2)
FEW90(linear_f16_32, F16, 4, 4, 2)
FEW90(linear_f16_64, F16, 8, 3, 2)
LINEAR90(linear_f16_128, F16, 1, 128, 4, false)
LINEAR90(linear_f16_256, F16, 2, 256, 4, false)
