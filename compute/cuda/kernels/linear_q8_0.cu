// Products of Q8_0 matrices.
#include "linearq.cuh"

LINEARQ(q8_0, Q8_0, 12, 6)
