// Products of Q5_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q5_0, Q5_0, 8, 6, 4, 3, 4, 2)
