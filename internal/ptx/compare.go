package ptx

import (
	"slices"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// compareLanes compares all lanes and returns the result as a mask.
func (c *compiler) compareLanes(op string, t arith.Type, ftz bool, a, b ref) func(w *warp, mask uint32) uint32 {
	if t.Float() {
		f := arith.CompareFloat(op)
		if f == nil || t.Pack == 2 {
			c.fail("unknown comparison .%s", op)
			return nil
		}
		if t.Bits == 32 && !ftz {
			return compareF32(f, a.slot, b.slot)
		}
		mode := arith.FloatMode{FTZ: ftz}
		return compareEach(a, b, func(x, y uint64) bool {
			return f(arith.Flushed(t, mode, x), arith.Flushed(t, mode, y))
		})
	}
	f := arith.CompareInt(op, t)
	if f == nil {
		c.fail("unknown comparison .%s", op)
		return nil
	}
	if t.Bits == 32 && !a.wide && !b.wide {
		return compareWords(op, t.Signed(), func(w *warp) (*arith.Lanes32, *arith.Lanes32) {
			return &w.r[a.slot], &w.r[b.slot]
		})
	}
	if t.Bits == 64 && a.wide && b.wide {
		return compareWords(op, t.Signed(), func(w *warp) (*arith.Lanes64, *arith.Lanes64) {
			return &w.q[a.slot], &w.q[b.slot]
		})
	}
	return compareEach(a, b, func(x, y uint64) bool { return f(arith.Extend(x, t), arith.Extend(y, t)) })
}

func compareEach(a, b ref, f func(x, y uint64) bool) func(w *warp, mask uint32) uint32 {
	return func(w *warp, mask uint32) (out uint32) {
		eachLane(mask, func(i int) {
			if f(a.get(w, i), b.get(w, i)) {
				out |= 1 << i
			}
		})
		return out
	}
}

func compareF32(f func(a, b float64) bool, a, b slot) func(w *warp, mask uint32) uint32 {
	return func(w *warp, _ uint32) (out uint32) {
		x, y := &w.r[a], &w.r[b]
		for i := range x {
			if f(float64(arith.F32(x[i])), float64(arith.F32(y[i]))) {
				out |= 1 << i
			}
		}
		return out
	}
}

// compareWords has loops for integers as wide as their registers; the other
// comparisons are these with operands or result exchanged.
func compareWords[T unsigned](op string, signed bool,
	get func(w *warp) (x, y *[arith.WarpSize]T)) func(w *warp, mask uint32) uint32 {
	flip, bias := uint32(0), T(0)
	if signed {
		bias = ^(^T(0) >> 1)
	}
	if slices.Contains([]string{"ne", "ge", "hs", "le", "ls"}, op) {
		flip = arith.AllLanes
	}
	swap := slices.Contains([]string{"gt", "hi", "le", "ls"}, op)
	if op == "eq" || op == "ne" {
		return func(w *warp, _ uint32) (out uint32) {
			x, y := get(w)
			for i := range x {
				if x[i] == y[i] {
					out |= 1 << i
				}
			}
			return out ^ flip
		}
	}
	return func(w *warp, _ uint32) (out uint32) {
		x, y := get(w)
		if swap {
			x, y = y, x
		}
		for i := range x {
			if x[i]^bias < y[i]^bias {
				out |= 1 << i
			}
		}
		return out ^ flip
	}
}

// buildSetp decodes setp, with its second destination and its combination.
func buildSetp(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 3, 4) {
		return inst{}
	}
	op := m.Take(arith.Comparisons...)
	logic := m.Take("and", "or", "xor")
	ftz := m.Has("ftz")
	t := c.typed(m)
	d, a, b := c.outPred(ops[0]), c.in(ops[1], t), c.in(ops[2], t)
	compare := c.compareLanes(op, t, ftz, a, b)
	second := slot(-1)
	if ops[0].Second != nil {
		second = c.outPred(*ops[0].Second)
	}
	with := predicate{}
	if (len(ops) == 4) != (logic != "") {
		c.fail("setp with a combination needs a fourth operand")
	} else if logic != "" {
		with = c.inPred(ops[3])
	}
	return inst{step: func(w *warp, mask uint32) {
		v := compare(w, mask)
		other := with.of(w)
		w.setPred(d, arith.Combine(logic, v, other), mask)
		if second >= 0 {
			w.setPred(second, arith.Combine(logic, ^v, other), mask)
		}
	}}
}

// buildSet decodes set: a comparison whose result is a number.
func buildSet(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	op := m.Take(arith.Comparisons...)
	ftz := m.Has("ftz")
	to, t := c.typed(m), c.typed(m)
	d, a, b := c.out(ops[0], to), c.in(ops[1], t), c.in(ops[2], t)
	compare := c.compareLanes(op, t, ftz, a, b)
	yes := arith.Extend(^uint64(0), arith.UnsignedOf(arith.Scalar('u', to.Bits)))
	if to.Float() {
		yes = arith.FromFloat(to, 1, arith.RoundNearest)
	}
	return inst{step: func(w *warp, mask uint32) {
		v := compare(w, mask)
		eachLane(mask, func(i int) { d.set(w, i, arith.Pick(v>>i&1 != 0, yes, 0)) })
	}}
}

// buildSelp decodes selp: one of two values by a predicate.
func buildSelp(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, p := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.inPred(ops[3])
	if d.wide {
		return inst{step: func(w *warp, mask uint32) {
			yes := p.of(w)
			eachLane(mask, func(i int) { d.set(w, i, arith.Pick(yes>>i&1 != 0, a.get(w, i), b.get(w, i))) })
		}}
	}
	return inst{step: func(w *warp, mask uint32) {
		yes, x, y := p.of(w), &w.r[a.slot], &w.r[b.slot]
		to := &w.r[d.slot]
		if mask != w.live {
			to = &w.t
		}
		for i := range to {
			v := y[i]
			if yes>>i&1 != 0 {
				v = x[i]
			}
			to[i] = v
		}
		if mask != w.live {
			blend(&w.r[d.slot], to, mask)
		}
	}}
}

// buildSlct decodes slct: one of two values by the sign of a third.
func buildSlct(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	m.Drop("ftz")
	t, by := c.typed(m), c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, s := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], by)
	return inst{step: lanes3(d, a, b, s, func(x, y, z uint64) uint64 {
		if by.Float() {
			return arith.Pick(arith.F32(uint32(z)) >= 0, x, y)
		}
		return arith.Pick(int32(z) >= 0, x, y)
	})}
}
