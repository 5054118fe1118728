// Barriers and bulk copies of Hopper.
#pragma once
#include "common.cuh"

FORCE void barrier_init(u32 at, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory"); }
FORCE void barrier_expect(u32 at, int bytes) {
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
FORCE void barrier_arrive(u32 at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
FORCE void barrier_wait(u32 at, int parity) {
	u32 done = 0;
	while (!done)
		asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
			: "=r"(done) : "r"(at), "r"(parity) : "memory");
}
// copy_bulk copies bytes to shared memory and counts them at a barrier.
FORCE void copy_bulk(u32 to, const void *from, int bytes, u32 barrier) {
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
		::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// open_barriers makes STAGES barriers of one arrival, and behind them as many of
// arrivals. Every thread of the block calls it.
template <int STAGES> FORCE void open_barriers(u32 at, int arrivals) {
	if (threadx == 0) {
		UNROLL for (int i = 0; i < STAGES; i++) {
			barrier_init(at + 8 * i, 1);
			barrier_init(at + 8 * (STAGES + i), arrivals);
		}
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	sync_block();
}
