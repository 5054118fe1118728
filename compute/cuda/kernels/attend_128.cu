// Attention of heads up to 128 wide. The stages are as in kernels.go.
#include "attend.cuh"

ATTEND(128, 8, 3, 3, 3)
