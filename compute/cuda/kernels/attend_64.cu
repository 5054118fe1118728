// Attention of heads up to 64 wide. The stages are as in kernels.go.
#if __CUDA_ARCH__ >= 900
#include "attend90.cuh"
#include "attendbulk90.cuh"
ATTEND_MANY90(64, 8)
ATTEND_BULK(64, 12)
#else
#include "attend.cuh"
ATTEND_MANY(64, 8, 6)
#endif
ATTEND_FEW(64, 6, 2)
