package ptx

import (
	"math/bits"
	"slices"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// buildCopy decodes cp.async and all cp.async.bulk forms.
func buildCopy(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	reduce := m.Has("reduce")
	if !m.Has("async") {
		c.fail("unknown form of cp")
		return inst{}
	}
	if m.Has("bulk") {
		return c.bulkCopy(m, reduce, ops)
	}
	switch m.Take("commit_group", "wait_group", "wait_all", "mbarrier") {
	case "commit_group":
		return inst{step: func(w *warp, mask uint32) {
			eachLane(mask, func(i int) { w.copies.group[i]++ })
		}}
	case "wait_group":
		if !c.operands(ops, 1, 1) {
			return inst{}
		}
		keep := uint32(ops[0].Value)
		return inst{step: func(w *warp, mask uint32) {
			w.finishCopies(mask, func(c *asyncCopy, i int) bool { return c.group[i]+keep < w.copies.group[i] })
		}}
	case "wait_all":
		return inst{step: func(w *warp, mask uint32) { w.finishAll(mask) }}
	case "mbarrier":
		return c.copyArrive(m, ops)
	}
	return c.copyAsync(m, ops)
}

// finishAll completes all copies of the lanes of mask.
func (w *warp) finishAll(mask uint32) {
	w.finishCopies(mask, func(*asyncCopy, int) bool { return true })
}

func (c *compiler) copyAsync(m *syntax.Modifiers, ops []syntax.Operand) inst {
	dropHints(m)
	if c.takeSpace(m) != spaceShared || c.takeSpace(m) != spaceGlobal || !c.operands(ops, 3, 5) {
		c.fail("cp.async copies from global to shared memory")
		return inst{}
	}
	dst, src, size := c.memory(ops[0]), c.memory(ops[1]), int(ops[2].Value)
	if size != 4 && size != 8 && size != 16 {
		c.fail("cp.async of %d bytes", size)
	}
	take := ref{slot: c.k.constant32(uint32(size))}
	if len(ops) > 3 {
		if sym, ok := c.scope.lookup(ops[3].Name); ok && sym.kind == symPred {
			c.fail("cp.async with ignore-src is not supported")
		}
		take = c.in(ops[3], arith.Types["u32"])
	}
	return inst{step: func(w *warp, mask uint32) {
		op := &asyncCopy{mask: mask, size: size, group: w.copies.group}
		eachLane(mask, func(i int) {
			op.dst[i], op.src[i] = uint32(dst.lane(w, i)), src.lane(w, i)
			op.take[i] = uint32(take.get(w, i))
			w.startCopy(op, i)
		})
		w.copies.list = append(w.copies.list, op)
	}}
}

// startCopy examines both ends of a copy when it is issued.
func (w *warp) startCopy(op *asyncCopy, lane int) {
	to := uint64(op.dst[lane])
	if to < sharedBase || to+uint64(op.size) > uint64(len(w.b.shared)) {
		w.faultAt(lane, to, "copy of %d bytes outside the %d bytes of shared memory", op.size,
			len(w.b.shared)-sharedBase)
	}
	if (to|op.src[lane])&uint64(op.size-1) != 0 {
		w.faultAt(lane, op.src[lane], "misaligned copy of %d bytes to %#x", op.size, to)
	}
	if n := int(op.take[lane]); n > op.size {
		w.fault(lane, "copy that reads %d bytes and writes %d", n, op.size)
	} else if n > 0 {
		w.globalBytes(lane, op.src[lane], n)
	}
	w.b.shadow.startWrite(w, lane, int(to), op.size, 0)
}

// finishCopies makes the copies happen that ready selects, in their order.
func (w *warp) finishCopies(mask uint32, ready func(c *asyncCopy, lane int) bool) {
	keep := w.copies.list[:0]
	for _, op := range w.copies.list {
		for m := mask & op.mask; m != 0; m &= m - 1 {
			lane := bits.TrailingZeros32(m)
			if !ready(op, lane) {
				continue
			}
			op.mask &^= 1 << lane
			to := w.b.shared[op.dst[lane]:][:op.size]
			clear(to)
			if n := int(op.take[lane]); n > 0 {
				copy(to, w.globalBytes(lane, op.src[lane], n))
			}
			if s := w.b.shadow; s != nil {
				s.endWrite(int(op.dst[lane]), op.size)
				if s.writes != nil {
					s.order(w, lane, int(op.dst[lane]), op.size, true, 0)
				}
			}
		}
		if op.mask != 0 {
			keep = append(keep, op)
		}
	}
	w.copies.list = keep
}

// copyArrive decodes cp.async.mbarrier.arrive: the mbarrier sees an arrival
// when the thread's copies so far have happened.
func (c *compiler) copyArrive(m *syntax.Modifiers, ops []syntax.Operand) inst {
	m.Drop("arrive", "b64")
	noinc := m.Has("noinc")
	sp := c.takeSpace(m)
	if !c.operands(ops, 1, 1) {
		return inst{}
	}
	at := c.memory(ops[0])
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			bar, b := w.mbarrierAt(i, at.lane(w, i), sp)
			if !noinc {
				bar.pending++
			}
			mine := slices.Clone(w.copies.list)
			bar.clocks.release(w)
			bar.queue = append(bar.queue, func() {
				w.finishCopies(1<<i, func(op *asyncCopy, _ int) bool { return slices.Contains(mine, op) })
				bar.arrive(w, b, i, 1)
			})
		})
	}}
}
