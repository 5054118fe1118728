#include "device.h"
extern "C" {

#define STAGES 3
#define KT 32

// C[64 x 32] = A[64 x K] B[32 x K]^T in bf16 with 128 threads, through a
// pipeline of cp.async; rows past M and N are zero.
__global__ __launch_bounds__(128) void product(const u16 *a, const u16 *b, float *c, int M, int N, int K) {
  __shared__ __attribute__((aligned(16))) u16 sa[STAGES][64][KT + 8], sb[STAGES][32][KT + 8];
  int t = tidx, warp = t / 32, lane = t % 32;
  float acc[4][4] = {};
  auto fetch = [&](int stage, int k) {
    for (int i = t; i < 64 * KT / 8; i += 128) {
      int row = i / (KT / 8), col = i % (KT / 8) * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&sa[stage][row][col])),
                   "l"(row < M ? a + row * K + k + col : a), "r"(row < M ? 16 : 0) : "memory");
    }
    for (int i = t; i < 32 * KT / 8; i += 128) {
      int row = i / (KT / 8), col = i % (KT / 8) * 8;
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(&sb[stage][row][col])),
                   "l"(row < N ? b + row * K + k + col : b), "r"(row < N ? 16 : 0) : "memory");
    }
  };
  int tiles = K / KT;
  for (int s = 0; s < STAGES - 1; s++) {
    if (s < tiles) fetch(s, s * KT);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int i = 0; i < tiles; i++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    int s = i % STAGES;
    for (int k = 0; k < KT; k += 16) {
      u32 fa[4], fb[4][2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                   : "r"(shared_address(&sa[s][warp * 16 + lane % 16][k + lane / 16 * 8])) : "memory");
      for (int n = 0; n < 4; n++)
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(fb[n][0]), "=r"(fb[n][1])
                     : "r"(shared_address(&sb[s][n * 8 + lane % 8][k + lane / 8 % 2 * 8])) : "memory");
      for (int n = 0; n < 4; n++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(acc[n][0]), "+f"(acc[n][1]), "+f"(acc[n][2]), "+f"(acc[n][3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[n][0]), "r"(fb[n][1]));
    }
    int next = i + STAGES - 1;
    if (next < tiles) fetch(next % STAGES, next * KT);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int n = 0; n < 4; n++)
    for (int j = 0; j < 4; j++) {
      int row = warp * 16 + lane / 4 + j / 2 * 8, col = n * 8 + lane % 4 * 2 + j % 2;
      if (row < M && col < N) c[row * N + col] = acc[n][j];
    }
}

// One product of each other type, A [16 x k] and B [8 x k] row by row.
__global__ void products(const u32 *f16a, const u32 *f16b, const u32 *s8a, const u32 *s8b, const u32 *tf32a, const u32 *tf32b,
                         float *outf16, int *outs8, int *outs8short, float *outtf32) {
  int g = tidx / 4, q = tidx % 4, c = g * 8 + q * 2;
  float d[4] = {1, 2, 3, 4};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(f16a[g * 8 + q]), "r"(f16a[g * 8 + 64 + q]), "r"(f16a[g * 8 + q + 4]), "r"(f16a[g * 8 + 64 + q + 4]),
                 "r"(f16b[g * 8 + q]), "r"(f16b[g * 8 + q + 4]));
  for (int i = 0; i < 4; i++) outf16[c + i / 2 * 64 + i % 2] = d[i];
  int e[4] = {1, 2, 3, 4};
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(e[0]), "+r"(e[1]), "+r"(e[2]), "+r"(e[3])
               : "r"(s8a[g * 8 + q]), "r"(s8a[g * 8 + 64 + q]), "r"(s8a[g * 8 + q + 4]), "r"(s8a[g * 8 + 64 + q + 4]),
                 "r"(s8b[g * 8 + q]), "r"(s8b[g * 8 + q + 4]));
  for (int i = 0; i < 4; i++) outs8[c + i / 2 * 64 + i % 2] = e[i];
  int h[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(h[0]), "+r"(h[1]), "+r"(h[2]), "+r"(h[3]) : "r"(s8a[g * 8 + q]), "r"(s8a[g * 8 + 64 + q]), "r"(s8b[g * 8 + q]));
  for (int i = 0; i < 4; i++) outs8short[c + i / 2 * 64 + i % 2] = h[i];
  float f[4] = {};
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
               : "r"(tf32a[g * 8 + q]), "r"(tf32a[g * 8 + 64 + q]), "r"(tf32a[g * 8 + q + 4]), "r"(tf32a[g * 8 + 64 + q + 4]),
                 "r"(tf32b[g * 8 + q]), "r"(tf32b[g * 8 + q + 4]));
  for (int i = 0; i < 4; i++) outtf32[c + i / 2 * 64 + i % 2] = f[i];
}

// Transposes four 8 x 8 matrices with ldmatrix.
__global__ void transposed(const u32 *in, u32 *out) {
  __shared__ __attribute__((aligned(16))) u32 s[128];
  for (int i = 0; i < 4; i++) s[tidx + 32 * i] = in[tidx + 32 * i];
  __nvvm_bar_warp_sync(FULL);
  u32 r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(&s[tidx * 4])) : "memory");
  for (int i = 0; i < 4; i++) out[tidx + 32 * i] = r[i];
}
}
