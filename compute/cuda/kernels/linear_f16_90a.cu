// Products of F16 matrices with many rows on Hopper.
#include "linear90.cuh"

LINEAR90(linear_f16_wide, F16, 1, 128, 6)
LINEAR90(linear_f16_256, F16, 2, 256, 4)
