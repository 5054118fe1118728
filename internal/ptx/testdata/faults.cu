#include "device.h"
extern "C" {

// Thread n writes past the end.
__global__ void past(float *x, int n) {
  if ((int)tidx <= n) x[tidx] = 1;
}

__global__ void misaligned(char *x) { *(volatile u32 *)(x + 2) = 1; }

// The barrier between write and read is missing.
__global__ void race(float *out) {
  __shared__ float s[64];
  s[tidx] = tidx;
  out[tidx] = s[63 - tidx];
}

// Between lanes of one warp, too: bar.warp.sync is missing.
__global__ void warprace(float *out) {
  __shared__ float s[32];
  s[tidx] = tidx;
  asm volatile("" ::: "memory");
  out[tidx] = s[31 - tidx];
}

// The second barrier is missing: a fast warp overwrites what a slow one reads.
__global__ void overwrite(float *out, int n) {
  __shared__ float s[64];
  float sum = 0;
  for (int i = 0; i < n; i++) {
    s[tidx] = tidx + i;
    __syncthreads();
    sum += s[(tidx + 33) % 64];
  }
  out[tidx] = sum;
}

// The same with both barriers, and with bytes of one word written by four threads.
__global__ void ordered(float *out, int n) {
  __shared__ float s[64];
  __shared__ u8 b[64];
  float sum = 0;
  for (int i = 0; i < n; i++) {
    s[tidx] = tidx + i;
    b[tidx] = tidx + i;
    __syncthreads();
    sum += s[(tidx + 33) % 64] + b[63 - tidx];
    __syncthreads();
  }
  out[tidx] = sum;
}

__global__ void unwritten(float *out) {
  __shared__ float s[64];
  if (tidx != 17) s[tidx] = 1;
  __syncthreads();
  out[tidx] = s[tidx];
}

__global__ void divergent(float *out) {
  if (tidx < 16) __syncthreads();
  out[tidx] = 1;
}

__global__ void mismatched(float *out) {
  if (tidx < 32) asm volatile("bar.sync 1, 64;" ::: "memory");
  else asm volatile("bar.sync 2, 64;" ::: "memory");
  out[tidx] = 1;
}

__global__ void endless(volatile u32 *flag) {
  while (*flag == 0) {}
}

__global__ void outside(float *out, int i) {
  __shared__ float s[8];
  s[tidx % 8] = 0;
  __syncthreads();
  ((volatile float *)s)[i] = 1;
  out[0] = 1;
}

__global__ void shuffled(u32 *out) {
  u32 v = tidx;
  if (tidx < 8) v = __nvvm_shfl_sync_idx_i32(0xff, v, 9, 31);
  out[tidx] = v;
}

// Reads a copy's destination before waiting for it.
__global__ void early(const float *x, float *out, int wait) {
  __shared__ __attribute__((aligned(16))) float s[128];
  u32 to = shared_address(s + 4 * tidx);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + 4 * tidx) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
  if (wait) asm volatile("cp.async.wait_group 0;" ::: "memory");
  __nvvm_bar_warp_sync(FULL);
  out[tidx] = s[tidx];
}
}
