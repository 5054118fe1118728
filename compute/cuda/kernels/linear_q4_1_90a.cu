// Products of Q4_1 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q4_1, Q4_1, 8, 6, 5, 4, 4, 2)
