// Package ptx interprets the PTX that we ship, so that kernels are tested on
// machines without a GPU. It is the second implementation of the driver that
// compute/cuda uses, and it is for tests alone: no product code imports it.
//
// A Module is parsed and decoded once; a Device holds memory and runs kernels:
//
//	module, err := ptx.Parse(source)
//	kernel, err := module.Kernel("scale")
//	device := ptx.New(ptx.Options{})
//	x, err := device.Alloc(4 * n)
//	params, err := kernel.Pack(ptx.U64(x), ptx.U32(n))
//	err = device.Launch(kernel, ptx.Dim{blocks}, ptx.Dim{128}, ptx.Dim{}, 0, params)
//
// # Execution
//
// Each instruction is executed for the 32 lanes of a warp at once, on
// registers laid out [register][lane]. Threads that diverge become fragments
// of their warp, each with its own program counter; the fragment with the
// lowest one runs first, and fragments that meet run together again. A .sync
// instruction waits until the lanes it names have arrived. Warps of a block
// take turns; blocks of a grid run on Options.Workers goroutines, and give the
// same bits in every run unless they communicate through atomics.
//
// Device functions are inlined at their calls, so recursion and calls through
// pointers are refused by Parse.
//
// # Asynchronous operations
//
// cp.async, cp.async.bulk, cp.async.bulk.tensor and wgmma.mma_async take
// effect as late as the programming model allows: when a thread waits for
// them. Until then their destinations count as pending, and an access to them
// is a fault.
//
// # What is checked
//
// A launch ends with a *Fault that names the kernel, block, thread, line and
// instruction when it
//   - accesses memory outside an allocation, after Free, outside the block's
//     shared memory or the thread's local memory, or misaligned;
//   - reads shared memory that the block has not written;
//   - races in shared memory: two accesses, one of them a write, that no
//     barrier orders. Order is tracked by vector clocks per warp, through
//     bar, barrier.cluster and mbarrier; lanes of one warp are ordered by
//     bar.warp.sync, and two lanes that access one word without it race, too;
//   - lets the asynchronous proxy (TMA, wgmma) read what ordinary stores wrote
//     without fence.proxy.async between;
//   - accesses the destination of a pending asynchronous operation;
//   - writes a register of wgmma after the last wgmma.fence, or reads one before
//     wgmma.wait_group;
//   - executes an .aligned instruction with part of a warp, or waits forever.
//
// Options.Without switches checks off for speed; bounds are always checked.
//
// # Floating point
//
// Instructions with a rounding modifier give IEEE results bit for bit, except
// the payload of a NaN. Approximate functions (ex2, lg2, sin, cos, tanh, rsqrt,
// rcp, div.full) are computed in float64 and rounded once. Matrix instructions
// multiply exactly and add in float32 in the order of k, one addition per
// product, starting from the accumulator; hardware adds in an order that is not
// specified, so tests compare matrix results with a tolerance.
package ptx
