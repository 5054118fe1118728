// Products of Q5_1 matrices.
#include "linearq.cuh"

LINEARQ(q5_1, Q5_1, 12, 6)
