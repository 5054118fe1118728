// Products of Q4_K matrices.
#include "linearq.cuh"

LINEARQ(q4_k, Q4_K, 6, 3)
