// What all kernels share: the words of CUDA that clang gives without CUDA's
// headers, warp operations, and the layout of a step's data.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define FORCE static __device__ __attribute__((always_inline)) inline
#define FORCE_MEMBER __device__ __attribute__((always_inline)) inline
#define BOUNDED(threads, blocks) extern "C" __global__ __attribute__((launch_bounds(threads, blocks)))
#define UNROLL _Pragma("unroll")
#define KERNEL(threads) extern "C" __global__ __attribute__((launch_bounds(threads)))

typedef unsigned char u8;
typedef signed char s8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
struct __attribute__((aligned(16))) quad { u32 x, y, z, w; };
struct __attribute__((aligned(8))) duo { u32 x, y; };

#define threadx ((int)__nvvm_read_ptx_sreg_tid_x())
#define blockx ((int)__nvvm_read_ptx_sreg_ctaid_x())
#define blocky ((int)__nvvm_read_ptx_sreg_ctaid_y())
#define blockz ((int)__nvvm_read_ptx_sreg_ctaid_z())
#define gridx ((int)__nvvm_read_ptx_sreg_nctaid_x())
#define gridy ((int)__nvvm_read_ptx_sreg_nctaid_y())

FORCE void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }
// sync_some is a barrier of so many threads, with a number of its own.
FORCE void sync_some(int number, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory"); }
FORCE void sync_warp() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

FORCE u32 bits_of(float v) { return __builtin_bit_cast(u32, v); }
FORCE float float_of(u32 v) { return __builtin_bit_cast(float, v); }

FORCE u32 shuffle_xor(u32 v, int lanes) {
	u32 r;
	asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(v), "r"(lanes));
	return r;
}
FORCE float shuffle_xor(float v, int lanes) { return float_of(shuffle_xor(bits_of(v), lanes)); }
FORCE int shuffle_xor(int v, int lanes) { return (int)shuffle_xor((u32)v, lanes); }

// The same sum or greatest value in all lanes; the order of additions is fixed.
FORCE float warp_sum(float v) {
	for (int i = 16; i > 0; i >>= 1) v += shuffle_xor(v, i);
	return v;
}
FORCE int warp_sum(int v) {
	for (int i = 16; i > 0; i >>= 1) v += shuffle_xor(v, i);
	return v;
}
FORCE u32 warp_max(u32 v) {
	for (int i = 16; i > 0; i >>= 1) {
		u32 o = shuffle_xor(v, i);
		v = o > v ? o : v;
	}
	return v;
}

FORCE float from_half(u16 h) {
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
	return f;
}
FORCE float from_brain(u16 h) { return float_of((u32)h << 16); }

// Two floats as two bfloat16 or two half numbers, the first in the lower half.
FORCE u32 brain_pair(float lo, float hi) {
	u32 r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}
FORCE u32 half_pair(float lo, float hi) {
	u32 r;
	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
}

// 2 to the power of x.
FORCE float exp2_fast(float x) {
	float r;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
	return r;
}

// 1/x, but for an error of the last bit.
FORCE float inverse_fast(float x) {
	float r;
	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
	return r;
}

FORCE u32 shared_address(const void *p) { return (u32)(u64)(__attribute__((address_space(3))) const void *)p; }

// copy_async copies 16 bytes from global to shared memory, or writes zeros there if bytes is 0.
FORCE void copy_async(u32 to, const void *from, int bytes) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
FORCE void copy_async(u32 to, const void *from) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
FORCE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> FORCE void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Four 8x8 matrices of 16-bit numbers from shared memory; each lane gives the address of a row.
FORCE quad load_matrices(u32 at) {
	quad r;
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at) : "memory");
	return r;
}
FORCE quad load_matrices_turned(u32 at) {
	quad r;
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at) : "memory");
	return r;
}
FORCE quad load_shared(u32 at) {
	quad r;
	asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
		: "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(at) : "memory");
	return r;
}

// c += a·b with a of 16x16 and b of 16x8 bfloat16 or half numbers.
FORCE void multiply_brain(float *c, quad a, u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
FORCE void multiply_half(float *c, quad a, u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// The exact product of 8-bit integers: a of 16x32 or 16x16, b of 32x8 or 16x8. Sums
// begin with the bits of 1.5·2^23, so that as floats they are that much more than the
// product, and a subtraction takes the place of a conversion, which is slower.
#define INT_BITS 0x4b400000
FORCE float float_sum(int c) { return float_of((u32)c) - 12582912.0f; }
FORCE void multiply_ints(int *c, quad a, u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
		: "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
		: "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "r"(INT_BITS));
}
FORCE void multiply_ints(int *c, u32 a0, u32 a1, u32 b0) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
		: "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3]) : "r"(a0), "r"(a1), "r"(b0), "r"(INT_BITS));
}

// On Hopper a kernel may begin while the one before it still runs. start_next
// lets the next one begin; until wait_before returns, nothing may be read or
// written that another kernel writes. Every kernel waits before it ends, so that
// all kernels before it are done then. The data of a step may be read before: the first
// kernel of a step waits for all of copy_words, and the others begin after that one.
FORCE void start_next() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
FORCE void wait_before() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
FORCE void begin() {
	start_next();
	wait_before();
}

// A step is an array of integers in device memory. It begins with these
// numbers; those called AT_ are where an array begins.
enum StepField {
	STEP_ROWS, STEP_OUTPUTS, STEP_FEW_ITEMS, STEP_MANY_ITEMS, STEP_COMBINES,
	AT_TOKENS, AT_POSITIONS, AT_SLOTS, AT_OUTPUTS, AT_FEW_ITEMS, AT_MANY_ITEMS, AT_COMBINES, AT_ROPES, AT_TABLES,
	STEP_FIELDS
};

// The types of weights, numbered as GGUF numbers them; F8 is E4M3, which GGUF does not have.
enum Type { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14, BF16 = 30, F8 = 1005 };

#define ROUND_UP(n, to) (((n) + (to) - 1) / (to) * (to))

FORCE int least(int a, int b) { return a < b ? a : b; }
