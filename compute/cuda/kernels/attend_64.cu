// Attention of heads up to 64 wide. The stages are as in kernels.go.
#if __CUDA_ARCH__ >= 900
#include "attend90.cuh"
#include "attendbulk90.cuh"
ATTEND_MANY90(64, 12)
#ifdef POOL_CODES
ATTEND_BULK(attend_bulk_64_int8, 64, 12, POOL_INT8)
ATTEND_BULK(attend_bulk_64_fp8, 64, 12, POOL_FP8)
#else
ATTEND_BULK(attend_bulk_64, 64, 6, POOL_BF16)
#endif
#else
#include "attend.cuh"
ATTEND_MANY(64, 8, 6)
#endif
ATTEND_FEW(64, 6, 2)
