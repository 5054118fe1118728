// Warpgroup instructions of Hopper.
#pragma once
#include "common.cuh"

FORCE void group_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FORCE void group_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> FORCE void group_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
