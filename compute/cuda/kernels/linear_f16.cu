// Products of F16 matrices.
#include "linear16.cuh"

LINEAR16(linear_f16_8, F16, 2, 1, 1, 1, 12)
LINEAR16(linear_f16_16, F16, 2, 1, 1, 2, 12)
LINEAR16(linear_f16_32, F16, 4, 1, 1, 4, 6)
LINEAR16(linear_f16_64, F16, 4, 1, 1, 8, 6)
LINEAR16(linear_f16_128, F16, 4, 2, 2, 8, 4)
