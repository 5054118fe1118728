// Attention of heads up to 64 wide. The stages are as in kernels.go.
#include "attend.cuh"

ATTEND(64, 8, 6, 6, 2)
