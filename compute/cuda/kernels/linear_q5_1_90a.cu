// Products of Q5_1 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q5_1, Q5_1, 8, 6, 5, 4, 4, 2)
