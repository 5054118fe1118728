// Products of Q4_0 matrices.
#include "linearq.cuh"

LINEARQ(q4_0, Q4_0, 12, 6)
