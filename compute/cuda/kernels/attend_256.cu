// Attention of heads up to 256 wide.
#include "attend.cuh"

ATTEND(256, 4, 2, 2)
