package ptx

import (
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// memberSlot decodes the member mask of a .sync instruction.
func (c *compiler) memberSlot(op syntax.Operand) func(w *warp, mask uint32) uint32 {
	s := c.in32(op, arith.Types["b32"])
	return func(w *warp, mask uint32) uint32 { return w.r[s][bits.TrailingZeros32(mask)&31] }
}

// buildShfl decodes shfl.sync.
func buildShfl(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !m.Has("sync") || !c.operands(ops, 5, 5) {
		c.fail("shfl without .sync")
		return inst{}
	}
	mode := m.Take("up", "down", "bfly", "idx")
	t := c.typed(m)
	d, a := c.out32(ops[0]), c.in32(ops[1], t)
	b, e := c.in32(ops[2], arith.Types["u32"]), c.in32(ops[3], arith.Types["u32"])
	p := slot(-1)
	if ops[0].Second != nil {
		p = c.outPred(*ops[0].Second)
	}
	return inst{kind: kindConverge, members: c.memberSlot(ops[4]), step: func(w *warp, mask uint32) {
		var valid uint32
		w.t = w.r[a]
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			from, ok := arith.ShuffleSource(mode, uint32(i), w.r[b][i], w.r[e][i])
			if ok {
				valid |= 1 << i
			}
			if mask>>from&1 == 0 {
				w.fault(i, "shuffle from lane %d, which does not take part", from)
			}
			w.t2[i] = w.t[from]
		}
		blend(&w.r[d], &w.t2, mask)
		if p >= 0 {
			w.setPred(p, valid, mask)
		}
	}}
}

// buildVote decodes vote.sync.
func buildVote(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !m.Has("sync") || !c.operands(ops, 3, 3) {
		c.fail("vote without .sync")
		return inst{}
	}
	mode := m.Take("all", "any", "uni", "ballot")
	c.typed(m)
	p := c.inPred(ops[1])
	in := inst{kind: kindConverge, members: c.memberSlot(ops[2])}
	if mode == "ballot" {
		d := c.out32(ops[0])
		in.step = func(w *warp, mask uint32) {
			v := p.of(w) & mask
			eachLane(mask, func(i int) { w.r[d][i] = v })
		}
		return in
	}
	d := c.outPred(ops[0])
	in.step = func(w *warp, mask uint32) {
		v := p.of(w) & mask
		yes := mode == "all" && v == mask || mode == "any" && v != 0 || mode == "uni" && (v == 0 || v == mask)
		out := uint32(0)
		if yes {
			out = arith.AllLanes
		}
		w.setPred(d, out, mask)
	}
	return in
}

// buildMatch decodes match.any.sync and match.all.sync.
func buildMatch(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	mode := m.Take("any", "all")
	if !m.Has("sync") || !c.operands(ops, 3, 3) {
		c.fail("match without .sync")
		return inst{}
	}
	t := c.typed(m)
	d, a := c.out32(ops[0]), c.in(ops[1], t)
	p := slot(-1)
	if ops[0].Second != nil {
		p = c.outPred(*ops[0].Second)
	}
	return inst{kind: kindConverge, members: c.memberSlot(ops[2]), step: func(w *warp, mask uint32) {
		all := true
		eachLane(mask, func(i int) {
			var same uint32
			eachLane(mask, func(j int) {
				if a.get(w, i) == a.get(w, j) {
					same |= 1 << j
				}
			})
			w.t[i] = same
			all = all && same == mask
		})
		if mode == "all" {
			eachLane(mask, func(i int) { w.t[i] = uint32(arith.Pick(all, uint64(mask), 0)) })
		}
		blend(&w.r[d], &w.t, mask)
		if p >= 0 {
			w.setPred(p, uint32(arith.Pick(all, arith.AllLanes, 0)), mask)
		}
	}}
}

func buildActiveMask(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	c.typed(m)
	if !c.operands(ops, 1, 1) {
		return inst{}
	}
	d := c.out32(ops[0])
	return inst{step: func(w *warp, mask uint32) { eachLane(mask, func(i int) { w.r[d][i] = mask }) }}
}

// buildRedux decodes redux.sync: a reduction over the lanes of a mask.
func buildRedux(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !m.Has("sync") || !c.operands(ops, 3, 3) {
		c.fail("redux without .sync")
		return inst{}
	}
	name := m.Take("add", "min", "max", "and", "or", "xor")
	t := c.typed(m)
	f := arith.BinaryInt(name, t)
	if f == nil || t.Bits != 32 || t.Float() {
		c.fail("unknown reduction .%s", name)
		return inst{}
	}
	d, a := c.out32(ops[0]), c.in32(ops[1], t)
	return inst{kind: kindConverge, members: c.memberSlot(ops[2]), step: func(w *warp, mask uint32) {
		first := bits.TrailingZeros32(mask) & 31
		v := arith.Extend(uint64(w.r[a][first]), t)
		eachLane(mask&^(1<<first), func(i int) { v = arith.Extend(f(v, arith.Extend(uint64(w.r[a][i]), t)), t) })
		eachLane(mask, func(i int) { w.r[d][i] = uint32(v) })
	}}
}

// buildElect decodes elect.sync: one lane, here the lowest, is the leader.
func buildElect(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !m.Has("sync") || !c.operands(ops, 2, 2) || ops[0].Second == nil {
		c.fail("elect without .sync")
		return inst{}
	}
	d, p := c.out32OrSink(ops[0]), c.outPred(*ops[0].Second)
	return inst{kind: kindConverge, members: c.memberSlot(ops[1]), step: func(w *warp, mask uint32) {
		leader := bits.TrailingZeros32(mask)
		eachLane(mask, func(i int) { w.r[d][i] = uint32(leader) })
		w.setPred(p, 1<<leader, mask)
	}}
}

func (c *compiler) out32OrSink(op syntax.Operand) slot {
	op.Second = nil
	return c.out32(op)
}
