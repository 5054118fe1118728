// Products of Q6_K matrices on Hopper.
#include "quant90.cuh"

QUANT90(q6_k, Q6_K, 8, 6, 4, 3, 1, 1)
