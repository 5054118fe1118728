// Products of Q4_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q4_0, Q4_0, 8, 6, 5, 4, 4, 2)
