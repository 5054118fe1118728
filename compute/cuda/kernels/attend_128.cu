// Attention of heads up to 128 wide. The stages are as in kernels.go.
#if __CUDA_ARCH__ >= 900
#include "attend90.cuh"
#include "attendbulk90.cuh"
ATTEND_MANY90(128, 4)
ATTEND_BULK(128, 6)
#else
#include "attend.cuh"
ATTEND_MANY(128, 8, 3)
#endif
ATTEND_FEW(128, 4, 2)
