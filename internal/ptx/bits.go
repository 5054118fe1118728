package ptx

import (
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// buildLop3 decodes lop3.b32, any logic function of three operands.
func buildLop3(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 5, 5) {
		return inst{}
	}
	d, x, y, z := c.out32(ops[0]), c.in32(ops[1], t), c.in32(ops[2], t), c.in32(ops[3], t)
	table := ops[4].Value
	return inst{step: ternary32(d, x, y, z, func(d, a, b, e *arith.Lanes32) {
		for i := range d {
			d[i] = arith.Lop3(a[i], b[i], e[i], table)
		}
	})}
}

// buildBfe decodes bfe: a field of bits, extended.
func buildBfe(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	u := arith.Types["u32"]
	d, a, at, n := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], u), c.in(ops[3], u)
	return inst{step: lanes3(d, a, at, n, func(x, at, n uint64) uint64 { return arith.BitField(x, at, n, t) })}
}

// buildBfi decodes bfi: a field of bits inserted into another value.
func buildBfi(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 5, 5) {
		return inst{}
	}
	u := arith.Types["u32"]
	d, a, b, at, n := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], u), c.in(ops[4], u)
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			at, n := min(at.get(w, i)&0xff, 64), min(n.get(w, i)&0xff, 64)
			field := (^uint64(0) >> (64 - n)) << at
			if n == 0 {
				field = 0
			}
			d.set(w, i, arith.Extend(a.get(w, i)<<at&field|b.get(w, i)&^field, arith.UnsignedOf(t)))
		})
	}}
}

// buildPrmt decodes prmt: bytes picked from two registers.
func buildPrmt(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	mode := m.Take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	if mode != "" {
		c.fail("prmt.%s is not supported", mode)
	}
	d, a, b, s := c.out32(ops[0]), c.in32(ops[1], t), c.in32(ops[2], t), c.in32(ops[3], t)
	return inst{step: ternary32(d, a, b, s, func(d, a, b, s *arith.Lanes32) {
		for i := range d {
			d[i] = arith.Permute(a[i], b[i], s[i])
		}
	})}
}

// buildShf decodes the funnel shifts shf.l and shf.r.
func buildShf(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	left, wrap := m.Take("l", "r") == "l", m.Take("wrap", "clamp") == "wrap"
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, s := c.out32(ops[0]), c.in32(ops[1], t), c.in32(ops[2], t), c.in32(ops[3], t)
	return inst{step: ternary32(d, a, b, s, func(d, a, b, s *arith.Lanes32) {
		for i := range d {
			n := min(s[i], 32)
			if wrap {
				n = s[i] & 31
			}
			all := uint64(b[i])<<32 | uint64(a[i])
			if left {
				d[i] = uint32(all << n >> 32)
			} else {
				d[i] = uint32(all >> n)
			}
		}
	})}
}

// buildFind decodes bfind and fns' simpler half: the highest set bit.
func buildFind(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	shift := m.Has("shiftamt")
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.out(ops[0], arith.Types["u32"]), c.in(ops[1], t)
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		x = arith.Extend(x, t)
		if t.Signed() && int64(x) < 0 {
			x = ^x
		}
		if x == 0 {
			return arith.AllLanes
		}
		at := bits.Len64(x) - 1
		if shift {
			at = t.Bits - 1 - at
		}
		return uint64(at)
	})}
}

// buildDp4a decodes dp4a and dp2a's four-byte sibling: a dot product of bytes.
func buildDp4a(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	ta, _ := m.TakeType()
	tb := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, e := c.out32(ops[0]), c.in32(ops[1], ta), c.in32(ops[2], tb), c.in32(ops[3], ta)
	ea, eb := arith.Scalar(ta.Class, 8), arith.Scalar(tb.Class, 8)
	if ta.Signed() && tb.Signed() {
		return inst{step: ternary32(d, a, b, e, arith.DotSigned)}
	}
	return inst{step: ternary32(d, a, b, e, func(d, a, b, e *arith.Lanes32) {
		for i := range d {
			sum := e[i]
			for j := range 4 {
				sum += uint32(arith.Extend(uint64(a[i]>>(8*j)), ea) * arith.Extend(uint64(b[i]>>(8*j)), eb))
			}
			d[i] = sum
		}
	})}
}
