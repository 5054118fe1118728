#include "device.h"
extern "C" {

__constant__ float table[8] = {1, 2, 3.5f, -1, 0.25f, 9, -7, 100};
__device__ u32 counter;
__device__ float weights[4] = {0.5f, 1.5f, 2.5f, 3.5f};

// Every thread takes a path and a number of turns of its own.
__global__ void diverge(u32 *out, int n) {
  int i = ctaidx * ntidx + tidx;
  if (i >= n) return;
  u32 x = i;
  int turns = 0;
  while (x != 1 && turns < 1000) {
    x = x == 0 ? 1 : x % 2 ? 3 * x + 1 : x / 2;
    turns++;
  }
  switch (i % 5) {
  case 0: turns += 10; break;
  case 1: turns *= 3; break;
  case 2: turns ^= 0x55; break;
  case 3: for (int j = 0; j < i % 7; j++) turns += j * i; break;
  default: turns = -turns;
  }
  out[i] = turns;
}

// A sum over the block: shuffles in a warp, shared memory between warps.
__global__ void reduce(const float *x, float *out, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = ctaidx * ntidx + tidx; i < n; i += ntidx * __nvvm_read_ptx_sreg_nctaid_x()) sum += x[i];
  for (int d = 16; d; d /= 2) sum += __nvvm_shfl_sync_bfly_f32(FULL, sum, d, 31);
  if (tidx % 32 == 0) part[tidx / 32] = sum;
  __syncthreads();
  if (tidx < 32) {
    sum = tidx < ntidx / 32 ? part[tidx] : 0;
    for (int d = 16; d; d /= 2) sum += __nvvm_shfl_sync_bfly_f32(FULL, sum, d, 31);
    if (tidx == 0) out[ctaidx] = sum;
  }
}

struct Rational { int n, d; float scale[3]; };

noinline __device__ float evaluate(Rational r, const float *p, int i) {
  if (r.d == 0) return p[i];
  return r.n / r.d + r.n % r.d + r.scale[i % 3] * table[i & 7];
}

// Device functions, structures by value, arrays in local memory, constants.
__global__ void calls(const int *a, const int *b, const float *p, float *out, Rational r, int n) {
  int i = ctaidx * ntidx + tidx;
  if (i >= n) return;
  float history[8];
  for (int j = 0; j < 8; j++) history[(j * a[i]) & 7] = j + weights[j & 3];
  r.n = a[i];
  r.d = b[i];
  out[i] = evaluate(r, p, i) + history[b[i] & 7 ? (a[i] * 0) : 0];
}

// Integers of all widths, and bits.
__global__ void integers(const u64 *a, const u64 *b, u64 *out, int n) {
  int i = ctaidx * ntidx + tidx;
  if (i >= n) return;
  u64 x = a[i], y = b[i], h = 0;
  long long s = x, t = y;
  int p = (int)x, q = (int)y;
  short g = (short)x, k = (short)y;
  signed char c = (signed char)x;
  h = h * 31 + (y ? x / y : 0);
  h = h * 31 + (y ? x % y : 0);
  h = h * 31 + (t && t != -1 ? s / t : 0);
  h = h * 31 + (u64)(((__int128)s * t) >> 64);
  h = h * 31 + (u64)(((unsigned __int128)x * y) >> 64);
  h = h * 31 + (q && q != -1 ? p % q : 0);
  h = h * 31 + (u64)((long long)p * q);
  h = h * 31 + (u32)(g * k) + (u32)(g < k) + (u16)(g >> (k & 15)) + (u32)c;
  h = h * 31 + __builtin_popcountll(x) + __builtin_clzll(y | 1) + __builtin_ctz(p | 1 << 20);
  h = h * 31 + __builtin_bitreverse32(p) + __builtin_bswap32(q) + __builtin_rotateleft32(p, q & 31);
  h = h * 31 + (x << (y & 63)) + (x >> (y & 63)) + (s >> (y & 63));
  h = h * 31 + (s < t ? s : t) + (p > q ? p : q) + ((p & q) ^ (p | ~q));
  out[i] = h;
}

__global__ void atomics(u32 *sum, u32 *order, float *total, u32 *lock) {
  u32 old = __nvvm_atom_add_gen_i((int *)sum, 3);
  order[old / 3] = 1;
  __nvvm_atom_add_gen_f(total, 0.5f);
  __nvvm_atom_add_gen_i((int *)&counter, 1);
  // Lanes of one warp take turns at a lock.
  bool done = false;
  while (!done) {
    if (__nvvm_atom_cas_gen_i((int *)lock, 0, 1) == 0) {
      u32 v = ((volatile u32 *)lock)[1];
      ((volatile u32 *)lock)[1] = v + 1;
      __nvvm_membar_gl();
      __nvvm_atom_xchg_gen_i((int *)lock, 0);
      done = true;
    }
  }
}

extern __shared__ u8 dynamic[];

// Reverses each block's bytes through dynamic shared memory.
__global__ void reverse(u8 *x, int n) {
  __shared__ u32 unused[3];
  unused[tidx % 3] = 1;
  for (int i = tidx; i < n; i += ntidx) dynamic[i] = x[ctaidx * n + i];
  __syncthreads();
  for (int i = tidx; i < n; i += ntidx) x[ctaidx * n + i] = dynamic[n - 1 - i];
}

// The last block to finish adds up what all have written.
__global__ void lastblock(float *part, u32 *arrived, float *out) {
  __shared__ bool last;
  if (tidx == 0) {
    part[ctaidx] = ctaidx + 1;
    __nvvm_membar_gl();
    last = __nvvm_atom_add_gen_i((int *)arrived, 1) == __nvvm_read_ptx_sreg_nctaid_x() - 1;
  }
  __syncthreads();
  if (last && tidx == 0) {
    float sum = 0;
    for (u32 i = 0; i < __nvvm_read_ptx_sreg_nctaid_x(); i++) sum += ((volatile float *)part)[i];
    *out = sum;
  }
}

// Blocks that wait for each other.
__global__ void gridbarrier(u32 *arrived, u32 *out) {
  if (tidx == 0) {
    __nvvm_atom_add_gen_i((int *)arrived, 1);
    while (*(volatile u32 *)arrived < __nvvm_read_ptx_sreg_nctaid_x()) {}
    out[ctaidx] = *(volatile u32 *)arrived;
  }
}
}
