// Attention of heads up to 256 wide. The stages are as in kernels.go.
#include "attend.cuh"

ATTEND(256, 4, 2, 2, 1)
