// What CUDA's headers would declare, for clang without them.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define noinline __attribute__((noinline))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define tidx __nvvm_read_ptx_sreg_tid_x()
#define ntidx __nvvm_read_ptx_sreg_ntid_x()
#define ctaidx __nvvm_read_ptx_sreg_ctaid_x()
#define FULL 0xffffffffu

__device__ inline u32 shared_address(const void *p) {
  return (u32)(u64)(__attribute__((address_space(3))) const void *)p;
}
