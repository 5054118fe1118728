// Products of Q5_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q5_0, Q5_0, 8, 6, 5, 4, 4, 2)
