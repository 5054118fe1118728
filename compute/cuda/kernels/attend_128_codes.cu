// Attention of heads up to 128 wide over a pool of 8-bit codes.
#define POOL_CODES
#include "attend_128.cu"
