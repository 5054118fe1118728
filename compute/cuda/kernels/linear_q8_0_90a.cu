// Products of Q8_0 matrices on Hopper.
#include "quant90.cuh"

QUANT90(q8_0, Q8_0, 8, 6, 5, 4, 4, 2)
