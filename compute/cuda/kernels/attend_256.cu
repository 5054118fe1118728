// Attention of heads up to 256 wide. The stages are as in kernels.go.
#include "attend.cuh"

ATTEND_MANY(256, 4, 2)
ATTEND_FEW(256, 2, 1)
