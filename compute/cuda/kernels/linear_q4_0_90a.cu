// Products of Q4_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q4_0, Q4_0, 3, 5, 3, 3, 3, 4, 1, 4, 4, 2)
QUANT90_THREE(q4_0, Q4_0)
