// Products of Q4_1 matrices.
#include "linearq.cuh"

LINEARQ(q4_1, Q4_1, 12, 6)
