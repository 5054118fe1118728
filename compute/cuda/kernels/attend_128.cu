// Attention of heads up to 128 wide. The stages are as in kernels.go.
#if __CUDA_ARCH__ >= 900
#include "attend90.cuh"
#include "attendbulk90.cuh"
ATTEND_MANY90(128, 10)
#ifdef POOL_CODES
ATTEND_BULK(attend_bulk_128_int8, 128, 6, POOL_INT8)
ATTEND_BULK(attend_bulk_128_fp8, 128, 6, POOL_FP8)
#else
ATTEND_BULK(attend_bulk_128, 128, 3, POOL_BF16)
#endif
#else
#include "attend.cuh"
ATTEND_MANY(128, 8, 3)
#endif
ATTEND_FEW(128, 4, 2)
