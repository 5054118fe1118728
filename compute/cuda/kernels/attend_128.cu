// Attention of heads up to 128 wide.
#include "attend.cuh"

ATTEND(128, 8, 4, 3)
