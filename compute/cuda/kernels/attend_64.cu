// Attention of heads up to 64 wide.
#include "attend.cuh"

ATTEND(64, 8, 5, 4)
