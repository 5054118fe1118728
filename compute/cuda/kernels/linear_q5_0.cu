// Products of Q5_0 matrices.
#include "linearq.cuh"

LINEARQ(q5_0, Q5_0, 12, 6)
