// Products of Q5_K matrices on Hopper.
#include "quant90.cuh"

QUANT90(q5_k, Q5_K, 8, 6, 4, 3, 1, 1)
