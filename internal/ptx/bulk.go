package ptx

import (
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

var tensorDims = map[string]int{"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}

// bulkCopy decodes cp.async.bulk in all its forms.
func (c *compiler) bulkCopy(m *syntax.Modifiers, reduce bool, ops []syntax.Operand) inst {
	switch m.Take("commit_group", "wait_group", "prefetch") {
	case "commit_group":
		return inst{step: func(w *warp, mask uint32) {
			eachLane(mask, func(i int) { w.copies.bulks[i]++ })
		}}
	case "wait_group":
		m.Drop("read")
		if !c.operands(ops, 1, 1) {
			return inst{}
		}
		keep := uint32(ops[0].Value)
		return inst{step: func(w *warp, mask uint32) { w.finishBulk(mask, keep) }}
	case "prefetch":
		return buildNothing(c, m, ops)
	}
	if reduce {
		c.fail("unknown instruction cp.reduce.async.bulk")
		return inst{}
	}
	dims := 0
	if m.Has("tensor") {
		dims = tensorDims[m.Take("1d", "2d", "3d", "4d", "5d")]
		m.Drop("tile")
	}
	m.Drop("L2::cache_hint", "mbarrier::complete_tx::bytes")
	multicast := m.Has("multicast::cluster")
	to, from := c.takeSpace(m), c.takeSpace(m)
	group := m.Has("bulk_group")
	switch {
	case to == spaceShared && from == spaceGlobal && !group:
		return c.bulkLoad(dims, multicast, ops)
	case to == spaceGlobal && from == spaceShared && group:
		return c.bulkStore(dims, ops)
	case to == spaceShared && from == spaceShared && dims == 0 && !group:
		return c.bulkShared(ops)
	}
	c.fail("unknown form of cp.async.bulk")
	return inst{}
}

// finishBulk makes copies of committed groups happen, all but the last keep groups.
func (w *warp) finishBulk(mask, keep uint32) {
	rest := w.copies.bulk[:0]
	for _, op := range w.copies.bulk {
		if mask>>op.lane&1 != 0 && op.group+keep < w.copies.bulks[op.lane] {
			op.run()
			continue
		}
		rest = append(rest, op)
	}
	w.copies.bulk = rest
}

func (c *compiler) bulkSource(dims int, op syntax.Operand) source {
	s := source{dims: dims}
	if dims == 0 {
		s.addr = c.memory(op)
		return s
	}
	if op.Kind != syntax.AddressOperand || len(op.List) != 2 || len(op.List[1].List) != dims {
		c.fail("a tensor map with %d coordinates must stand here", dims)
		return s
	}
	s.addr = c.addressOf(op.List[0])
	for _, e := range op.List[1].List {
		s.coords = append(s.coords, c.in32(e, arith.Types["s32"]))
	}
	return s
}

// box evaluates the source for a lane.
func (s *source) box(w *warp, lane int) box {
	addr := s.addr.lane(w, lane)
	if s.dims == 0 {
		n := int(w.r[s.size][lane])
		if n%16 != 0 || addr%16 != 0 {
			w.faultAt(lane, addr, "bulk copy of %d bytes; size and address must be multiples of 16", n)
		}
		return box{bytes: n, row: n, rows: func(f func(int, int, int, uint64)) { f(0, 0, n, addr) }}
	}
	m := w.tensorMapAt(lane, addr)
	if len(m.dims) != s.dims {
		w.faultAt(lane, addr, "a tensor map of %d dimensions, used with %d coordinates", len(m.dims), s.dims)
	}
	coords := make([]int64, s.dims)
	for i, r := range s.coords {
		coords[i] = int64(int32(w.r[r][lane]))
	}
	return box{bytes: m.bytes, row: m.box[0] * m.size, swizzle: m.swizzle, rows: func(f func(int, int, int, uint64)) {
		m.rows(coords, f)
	}}
}

// each calls f for every 16 bytes of shared memory at base, or for whole rows
// without a swizzle, with the bytes that lie in the tensor.
func (b *box) each(base int, f func(at, n, first, inside int, src uint64)) {
	b.rows(func(offset, first, n int, src uint64) {
		if b.swizzle == 0 {
			f(base+offset, b.row, first, n, src)
			return
		}
		for i := 0; i < b.row; i += 16 {
			low, high := max(first, i), min(first+n, i+16)
			f(swizzled(base+offset+i, b.swizzle), 16, low-i, max(high-low, 0), src+uint64(low-first))
		}
	})
}

// sharedRange checks an address of shared memory for a bulk copy.
func (w *warp) sharedRange(lane int, addr uint64, b box) (*block, int) {
	in, at := w.sharedBlock(lane, addr)
	to := 16
	if b.swizzle > 0 {
		to = 128
	}
	if at < sharedBase || at+uint64(b.bytes) > uint64(len(in.shared)) {
		w.faultAt(lane, addr, "bulk copy of %d bytes outside the %d bytes of shared memory", b.bytes,
			len(in.shared)-sharedBase)
	}
	if at%uint64(to) != 0 {
		w.faultAt(lane, addr, "shared memory of a bulk copy must be aligned to %d bytes", to)
	}
	return in, int(at)
}

// bulkLoad decodes copies from global to shared memory that complete on an mbarrier.
func (c *compiler) bulkLoad(dims int, multicast bool, ops []syntax.Operand) inst {
	want := 3
	if dims == 0 {
		want = 4
	}
	if !c.operands(ops, want, want+2) {
		return inst{}
	}
	dst, src, bar := c.memory(ops[0]), c.bulkSource(dims, ops[1]), c.memory(ops[want-1])
	if dims == 0 {
		src.size = c.in32(ops[2], arith.Types["u32"])
	}
	ranks := slot(-1)
	if multicast {
		if len(ops) == want {
			c.fail("multicast without a mask")
			return inst{}
		}
		ranks = c.in32(ops[want], arith.Types["u16"])
	}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			b := src.box(w, i)
			to, at := dst.lane(w, i), bar.lane(w, i)
			if ranks < 0 {
				w.startBulk(i, b, to, at)
				return
			}
			eachLane(w.r[ranks][i]&0xffff, func(rank int) {
				base := uint64(rank+1) << rankShift
				w.startBulk(i, b, base|to&(1<<rankShift-1), base|at&(1<<rankShift-1))
			})
		})
	}}
}

// startBulk queues one bulk load on its mbarrier, after all checks.
func (w *warp) startBulk(lane int, b box, to, barrier uint64) {
	in, at := w.sharedRange(lane, to, b)
	bar, owner := w.mbarrierAt(lane, barrier, spaceShared)
	b.each(at, func(_, _, _, inside int, src uint64) {
		if inside > 0 {
			w.globalBytes(lane, src, inside)
		}
	})
	in.shadow.startWrite(w, lane, at, b.bytes, stampAsync)
	bar.clocks.release(w)
	bar.queue = append(bar.queue, func() {
		b.each(at, func(at, n, first, inside int, src uint64) {
			data := in.shared[at:][:n]
			clear(data)
			if inside > 0 {
				copy(data[first:], w.globalBytes(lane, src, inside))
			}
		})
		in.shadow.endWrite(at, b.bytes)
		bar.bytes -= b.bytes
		bar.settle(owner)
	})
}

// bulkStore decodes copies from shared to global memory that belong to a bulk group.
func (c *compiler) bulkStore(dims int, ops []syntax.Operand) inst {
	want := 2
	if dims == 0 {
		want = 3
	}
	if !c.operands(ops, want, want+1) {
		return inst{}
	}
	dst, src := c.bulkSource(dims, ops[0]), c.memory(ops[1])
	if dims == 0 {
		dst.size = c.in32(ops[2], arith.Types["u32"])
	}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			b := dst.box(w, i)
			from, at := w.sharedRange(i, src.lane(w, i), b)
			b.each(at, func(_, _, _, inside int, to uint64) {
				if inside > 0 {
					w.globalBytes(i, to, inside)
				}
			})
			from.shadow.startRead(w, i, at, b.bytes)
			w.copies.bulk = append(w.copies.bulk, bulkCopy{i, w.copies.bulks[i], func() {
				b.each(at, func(at, _, first, inside int, to uint64) {
					if inside > 0 {
						copy(w.globalBytes(i, to, inside), from.shared[at+first:])
					}
				})
				from.shadow.endRead(w, at, b.bytes)
			}})
		})
	}}
}

// bulkShared decodes copies from the block's shared memory to that of another
// block of the cluster.
func (c *compiler) bulkShared(ops []syntax.Operand) inst {
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	dst, src, size, bar := c.memory(ops[0]), c.memory(ops[1]), c.in32(ops[2], arith.Types["u32"]), c.memory(ops[3])
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			b := box{bytes: int(w.r[size][i])}
			to, at := w.sharedRange(i, dst.lane(w, i), b)
			from, start := w.sharedRange(i, src.lane(w, i), b)
			done, owner := w.mbarrierAt(i, bar.lane(w, i), spaceShared)
			from.shadow.startRead(w, i, start, b.bytes)
			to.shadow.startWrite(w, i, at, b.bytes, stampAsync)
			done.clocks.release(w)
			done.queue = append(done.queue, func() {
				copy(to.shared[at:][:b.bytes], from.shared[start:])
				from.shadow.endRead(w, start, b.bytes)
				to.shadow.endWrite(at, b.bytes)
				done.bytes -= b.bytes
				done.settle(owner)
			})
		})
	}}
}

// checkEnd requires that no asynchronous operation outlives its block.
func (c *cluster) checkEnd() {
	for _, w := range c.warps {
		for _, op := range w.copies.bulk {
			w.fault(op.lane,
				"the block has ended while a bulk copy reads its shared memory; cp.async.bulk.wait_group is missing")
		}
		if w.wg.pending {
			w.fault(bits.TrailingZeros32(w.lanes),
				"the warp has ended with a pending wgmma; wgmma.wait_group is missing")
		}
	}
	for _, b := range c.blocks {
		for addr, bar := range b.mbars {
			if len(bar.queue) > 0 {
				b.warps[0].faultAt(0, uint64(addr),
					"the block has ended while a copy of this mbarrier is under way; nothing waited for it")
			}
		}
	}
}
