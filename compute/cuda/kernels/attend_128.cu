// Attention of heads up to 128 wide.
#include "attend.cuh"

ATTEND(128, 2)
