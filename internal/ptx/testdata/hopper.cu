// needs sm_90a
#include "device.h"
struct __attribute__((aligned(64))) TensorMap { u64 opaque[16]; };

__device__ inline void init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
__device__ inline void expect(u32 bar, u32 bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
__device__ inline void arrive(u32 bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ inline void wait(u32 bar, u32 parity) {
  asm volatile("{\n.reg .pred P;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n@P bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(bar), "r"(parity) : "memory");
}
__device__ inline void load2d(u32 to, const TensorMap *map, int x, int y, u32 bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}
__device__ inline u64 descriptor(u32 at, u32 leading, u32 stride, u32 swizzle) {
  return (u64)(at >> 4 & 0x3fff) | (u64)(leading >> 4 & 0x3fff) << 16 | (u64)(stride >> 4 & 0x3fff) << 32 | (u64)swizzle << 62;
}
__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait0() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
#define D4(d) "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
// Puts values into the registers of d before the fence that follows.
#define SETTLE(d) asm volatile("" : D4(d)::"memory")
#define D8(d) D4(d), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])

extern "C" {

extern __shared__ __attribute__((aligned(1024))) u8 memory[];

#define STAGES 3

// C[64 x 16] = A[64 x K] B[16 x K]^T in bf16: a producer warp brings tiles of
// 64 columns with TMA, four warps multiply. miss leaves out one step of the
// protocol.
__global__ __launch_bounds__(160) void pipeline(const TensorMap *a, const TensorMap *b, float *c, int tiles, int miss) {
  u32 base = shared_address(memory), sa = base, sb = base + STAGES * 8192, bars = sb + STAGES * 2048;
  if (tidx == 0) {
    for (int i = 0; i < STAGES; i++) {
      init(bars + 16 * i, 1);
      init(bars + 16 * i + 8, 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (tidx >= 128) {
    if (tidx == 128)
      for (int i = 0; i < tiles; i++) {
        int s = i % STAGES;
        u32 full = bars + 16 * s, empty = full + 8;
        if (i >= STAGES && miss != 1) wait(empty, (i / STAGES - 1) & 1);
        expect(full, 8192 + 2048);
        load2d(sa + 8192 * s, a, 64 * i, 0, full);
        load2d(sb + 2048 * s, b, 64 * i, 0, full);
      }
    return;
  }
  float d[8] = {};
  for (int i = 0; i < tiles; i++) {
    int s = i % STAGES;
    if (miss != 2) wait(bars + 16 * s, (i / STAGES) & 1);
    if (miss != 4) fence();
    for (int k = 0; k < 4; k++)
      asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 0;"
                   : D8(d) : "l"(descriptor(sa + 8192 * s + 32 * k, 16, 1024, 1)), "l"(descriptor(sb + 2048 * s + 32 * k, 16, 1024, 1)) : "memory");
    commit();
    if (miss != 3) wait0();
    if (tidx % 32 == 0) arrive(bars + 16 * s + 8);
  }
  if (miss == 3) wait0();
  int row = tidx / 32 * 16 + tidx % 32 / 4, col = tidx % 4 * 2;
  for (int i = 0; i < 8; i++) c[(row + i / 2 % 2 * 8) * 16 + col + i / 4 * 8 + i % 2] = d[i];
}

// The accumulators are read before the wait.
__global__ __launch_bounds__(128) void early(float *c, int unused) {
  u32 base = shared_address(memory);
  for (int i = tidx; i < 1024; i += 128) ((u32 *)memory)[i] = 0x3f803f80;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {};
  SETTLE(d);
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
               : D4(d) : "l"(descriptor(base, 128, 256, 0)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  float sum = d[0] + d[1];
  wait0();
  c[tidx] = sum + d[2] + d[3];
}

// A and B are stored by threads, one layout after another; fence = 0 forgets
// the fence between stores and the tensor core.
__global__ __launch_bounds__(128) void layouts(const u16 *a, const u16 *b, float *c, int fenced) {
  u32 base = shared_address(memory), t = tidx;
  u16 *sa = (u16 *)memory, *sb = (u16 *)(memory + 2048);
  // No swizzle, K-major: core matrices of 8 rows x 16 bytes.
  for (int i = t; i < 64 * 16; i += 128) { int r = i / 16, k = i % 16; sa[r / 8 * 128 + k / 8 * 64 + r % 8 * 8 + k % 8] = a[i]; }
  for (int i = t; i < 8 * 16; i += 128) { int r = i / 16, k = i % 16; sb[k / 8 * 64 + r % 8 * 8 + k % 8] = b[i]; }
  if (fenced) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {}, e[4] = {5, 5, 5, 5}, f[4] = {}, g[4] = {};
  SETTLE(d);
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
               : D4(d) : "l"(descriptor(base, 128, 256, 0)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  wait0();
  __syncthreads();
  // MN-major without swizzle: units of 8 rows, 16 bytes for each k.
  for (int i = t; i < 64 * 16; i += 128) { int r = i / 16, k = i % 16; sa[r / 8 * 128 + k / 8 * 64 + k % 8 * 8 + r % 8] = a[i]; }
  for (int i = t; i < 8 * 16; i += 128) { int r = i / 16, k = i % 16; sb[k / 8 * 64 + k % 8 * 8 + r % 8] = b[i]; }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  SETTLE(e);
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 0, -1, 1, 1, 1;"
               : D4(e) : "l"(descriptor(base, 128, 256, 0)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  wait0();
  __syncthreads();
  // MN-major with 128 bytes of swizzle: 64 rows in a line of 128 bytes for each k.
  for (int i = t; i < 64 * 16; i += 128) { int r = i / 16, k = i % 16; sa[k * 64 + (r / 8 ^ k % 8) * 8 + r % 8] = a[i]; }
  for (int i = t; i < 8 * 16; i += 128) { int r = i / 16, k = i % 16; sb[k / 8 * 64 + k % 8 * 8 + r % 8] = b[i]; }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  SETTLE(f);
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 1, 1;"
               : D4(f) : "l"(descriptor(base, 4096, 1024, 1)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  wait0();
  __syncthreads();
  // MN-major with 64 bytes of swizzle: lines of 32 rows for each k, two of them.
  for (int i = t; i < 64 * 16; i += 128) {
    int r = i / 16, k = i % 16, at = r / 32 * 1024 + k / 8 * 512 + k % 8 * 64 + r % 32 * 2;
    sa[(at ^ (at >> 7 & 3) << 4) / 2] = a[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float h[4] = {};
  SETTLE(h);
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 1, 1;"
               : D4(h) : "l"(descriptor(base, 1024, 512, 2)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  wait0();
  // A from registers.
  u32 lane = t % 32, row = t / 32 * 16 + lane / 4, q = lane % 4, r[4];
  for (int i = 0; i < 4; i++) r[i] = *(const u32 *)(a + (row + i % 2 * 8) * 16 + i / 2 * 8 + q * 2);
  SETTLE(g);
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 1;"
               : D4(g) : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  wait0();
  for (int i = 0; i < 4; i++) {
    int at = (row + i / 2 * 8) * 8 + q * 2 + i % 2;
    c[at] = d[i]; c[512 + at] = e[i]; c[1024 + at] = f[i]; c[1536 + at] = g[i]; c[2048 + at] = h[i];
  }
}

// Eight-bit types: A[64 x 32] and B[8 x 32], K-major without swizzle.
__global__ __launch_bounds__(128) void bytes(const u8 *a, const u8 *b, float *c, int *s) {
  u32 base = shared_address(memory), t = tidx;
  for (int i = t; i < 64 * 32; i += 128) { int r = i / 32, k = i % 32; memory[r / 8 * 256 + k / 16 * 128 + r % 8 * 16 + k % 16] = a[i]; }
  for (int i = t; i < 8 * 32; i += 128) { int r = i / 32, k = i % 32; memory[2048 + k / 16 * 128 + r % 8 * 16 + k % 16] = b[i]; }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[4] = {};
  int e[4] = {};
  SETTLE(d);
  asm volatile("" : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3])::"memory");
  fence();
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0,%1,%2,%3}, %4, %5, 1, 1, 1;"
               : D4(d) : "l"(descriptor(base, 128, 256, 0)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0,%1,%2,%3}, %4, %5, 1;"
               : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3]) : "l"(descriptor(base, 128, 256, 0)), "l"(descriptor(base + 2048, 128, 256, 0)) : "memory");
  commit();
  wait0();
  u32 row = t / 32 * 16 + t % 32 / 4, q = t % 4;
  for (int i = 0; i < 4; i++) {
    c[(row + i / 2 * 8) * 8 + q * 2 + i % 2] = d[i];
    s[(row + i / 2 * 8) * 8 + q * 2 + i % 2] = e[i];
  }
}

// Copies a box of a tensor of halves through shared memory: in with TMA, out
// once as it lies there and once with TMA to another place.
__global__ void boxes(const TensorMap *from, const TensorMap *to, u16 *raw, int x, int y, int rows, int row, int miss) {
  u32 base = shared_address(memory), bar = base + rows * row;
  if (tidx == 0) {
    init(bar, 1);
    expect(bar, rows * row);
    load2d(base, from, x, y, bar);
  }
  __syncthreads();
  wait(bar, 0);
  for (int i = tidx; i < rows * row / 2; i += ntidx) raw[i] = ((u16 *)memory)[i];
  __syncthreads();
  if (tidx == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(to), "r"(base), "r"(0), "r"(1) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (!miss) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

// Plain bulk copies, with stores of threads between; fenced = 0 forgets the proxy fence.
__global__ void bulk(const float *x, float *y, int fenced) {
  u32 base = shared_address(memory), bar = base + 1024;
  if (tidx == 0) {
    init(bar, 1);
    expect(bar, 1024);
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(base), "l"(x), "r"(1024), "r"(bar) : "memory");
  }
  __syncthreads();
  wait(bar, 0);
  for (int i = tidx; i < 256; i += ntidx) ((float *)memory)[i] *= 2;
  if (fenced) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (tidx == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y), "r"(base), "r"(1024) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

// Two blocks of a cluster read each other's shared memory.
__global__ void neighbours(u32 *out) {
  u32 rank, value, address = shared_address(memory);
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  ((u32 *)memory)[tidx] = 100 * rank + tidx;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm volatile("{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %1, %2;\nld.shared::cluster.u32 %0, [r];\n}" : "=r"(value) : "r"(address + 4 * tidx), "r"(rank ^ 1) : "memory");
  out[ctaidx * 32 + tidx] = value;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Eight-bit floats: conversions.
__global__ void convert(const float *x, u16 *e4m3, u16 *e5m2, u32 *back) {
  u16 v, w;
  u32 h;
  asm volatile("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(x[2 * tidx + 1]), "f"(x[2 * tidx]));
  asm volatile("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(w) : "f"(x[2 * tidx + 1]), "f"(x[2 * tidx]));
  asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(v));
  e4m3[tidx] = v;
  e5m2[tidx] = w;
  back[tidx] = h;
}

// One thread of the warp is elected.
__global__ void elected(u32 *out) {
  u32 leader;
  asm volatile("{\n.reg .pred P;\nelect.sync _|P, 0xffffffff;\nselp.u32 %0, 1, 0, P;\n}" : "=r"(leader));
  out[tidx] = leader;
}
}
