// Products of Q4_K matrices on Hopper.
#include "quant90.cuh"

QUANT90(q4_k, Q4_K, 8, 6, 4, 3, 1, 1)
