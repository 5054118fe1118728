// Products of Q4_1 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q4_1, Q4_1, 3, 5, 3, 3, 3, 4, 1, 4, 4, 2)
QUANT90_THREE(q4_1, Q4_1)
