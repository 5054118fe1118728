// Products of Q5_K matrices on Hopper.
#include "quant90.cuh"

QUANT90(q5_k, Q5_K, 4, 3, 3, 2, 2, 3, 4, 1, 1, 1)
