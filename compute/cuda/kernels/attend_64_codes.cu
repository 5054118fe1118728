// Attention of heads up to 64 wide over a pool of 8-bit codes.
#define POOL_CODES
#include "attend_64.cu"
