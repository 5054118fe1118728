// Products of Q5_K matrices.
#include "linearq.cuh"

LINEARQ(q5_k, Q5_K, 6, 3)
