// Products of Q6_K matrices.
#include "linearq.cuh"

LINEARQ(q6_k, Q6_K, 6, 3)
