// needs sm_90a
#include "device.h"
struct __attribute__((aligned(64))) TensorMap { u64 opaque[16]; };

__device__ inline void init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
__device__ inline void wait(u32 bar, u32 parity) {
  asm volatile("{\n.reg .pred P;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@!P bra WAIT;\n}" ::"r"(bar), "r"(parity) : "memory");
}

extern "C" {
extern __shared__ __attribute__((aligned(1024))) u8 memory[];

// A product of eight-bit floats, A [16 x 32] and B [8 x 32] row by row.
__global__ void product8(const u32 *a, const u32 *b, float *out) {
  int g = tidx / 4, q = tidx % 4;
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[g * 8 + q]), "r"(a[g * 8 + 64 + q]), "r"(a[g * 8 + q + 4]), "r"(a[g * 8 + 64 + q + 4]), "r"(b[g * 8 + q]), "r"(b[g * 8 + q + 4]));
  for (int i = 0; i < 4; i++) out[g * 8 + q * 2 + i / 2 * 64 + i % 2] = d[i];
}

// Registers to matrices in shared memory and back, transposed on the way in.
__global__ void matrices(const u32 *in, u32 *plain, u32 *turned) {
  u32 at = shared_address(memory) + tidx * 16, r[4], s[4];
  for (int i = 0; i < 4; i++) r[i] = in[tidx + 32 * i];
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  __nvvm_bar_warp_sync(FULL);
  for (int i = 0; i < 4; i++) plain[tidx + 32 * i] = ((u32 *)memory)[tidx + 32 * i];
  __nvvm_bar_warp_sync(FULL);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
  __nvvm_bar_warp_sync(FULL);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]) : "r"(at) : "memory");
  for (int i = 0; i < 4; i++) turned[tidx + 32 * i] = s[i];
}

// Copies of all threads that arrive at an mbarrier, which another warp waits for.
__global__ void arrivals(const float *x, float *out, int waits) {
  u32 base = shared_address(memory), bar = base + 1024;
  if (tidx == 0) init(bar, 64);
  __syncthreads();
  if (tidx < 64) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(base + 4 * tidx), "l"(x + tidx) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
  } else {
    if (waits) wait(bar, 0);
    for (int i = tidx - 64; i < 64; i += 32) out[i] = ((float *)memory)[i];
  }
}

// A box of a tensor of three dimensions.
__global__ void volume(const TensorMap *map, float *out, int x, int y, int z, int n) {
  u32 base = shared_address(memory), bar = base + 4096;
  if (tidx == 0) {
    init(bar, 1);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(n * 4) : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(base),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z) : "memory");
  }
  __syncthreads();
  wait(bar, 0);
  for (int i = tidx; i < n; i += ntidx) out[i] = ((float *)memory)[i];
}

// Warp 0 hands numbers to warp 1 through named barriers, warp 2 takes no part.
__global__ void named(u32 *out, int n) {
  u32 *s = (u32 *)memory;
  if (tidx < 32) {
    for (int i = 0; i < n; i++) {
      asm volatile("barrier.sync 1, 64;" ::: "memory");
      s[tidx] = i * 100 + tidx;
      asm volatile("barrier.arrive 2, 64;" ::: "memory");
    }
  } else if (tidx < 64) {
    for (int i = 0; i < n; i++) {
      asm volatile("barrier.arrive 1, 64;" ::: "memory");
      asm volatile("barrier.sync 2, 64;" ::: "memory");
      out[i * 32 + tidx - 32] = s[63 - tidx];
    }
  }
}

// Waits for an arrival that never comes.
__global__ void forever(u32 *out) {
  u32 bar = shared_address(memory);
  if (tidx == 0) {
    init(bar, 2);
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
  }
  __syncthreads();
  wait(bar, 0);
  out[tidx] = 1;
}

// Uses an mbarrier that another warp has initialised, without a barrier between.
__global__ void hasty(u32 *out) {
  u32 bar = shared_address(memory);
  if (tidx == 0) init(bar, 1);
  if (tidx == 32) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
  out[tidx] = 1;
}
}
