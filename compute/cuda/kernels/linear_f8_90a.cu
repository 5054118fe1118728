// Products of E4M3 matrices on Hopper, named by rows and warpgroups. The stages are as in kernels.go.
#include "eight90.cuh"

EIGHT90(1, 8, 10, 2)
EIGHT90(1, 16, 9, 2)
EIGHT90(1, 32, 8, 2)
EIGHT90(1, 64, 6, 2)
EIGHT90(2, 128, 6, 1)
