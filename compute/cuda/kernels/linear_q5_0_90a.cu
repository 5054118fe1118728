// Products of Q5_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q5_0, Q5_0, 3, 5, 3, 3, 3, 4, 1, 4, 4, 2)
QUANT90_THREE(q5_0, Q5_0)
