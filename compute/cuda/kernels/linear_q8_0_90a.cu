// Products of Q8_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q8_0, Q8_0, 3, 5, 3, 3, 3, 4, 1, 4, 4, 2)
QUANT90_THREE(q8_0, Q8_0)
