package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// buildArithmetic decodes add, sub, min, max, and, or, xor, shl, shr, div, rem
// and mul for integers; floating-point types go to their own builders.
func buildArithmetic(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	rounding := m.Take("rn", "rz", "rm", "rp", "approx", "full")
	ftz, nan, xorsign := m.Has("ftz"), m.Has("NaN"), m.Has("xorsign")
	sat := m.Has("sat")
	half := m.Take("lo", "hi", "wide")
	abs := m.Has("abs")
	t := c.typed(m)
	if t.Float() {
		return c.floatBinary(m.Name, t, arith.FloatMode{Rounding: rounding, FTZ: ftz, Saturate: sat, NaN: nan}, ops)
	}
	if t.Class == 'p' {
		return c.predicateLogic(m.Name, ops)
	}
	if rounding != "" || ftz || nan || xorsign || abs {
		c.fail("a floating-point modifier of an integer instruction")
	}
	switch half {
	case "wide":
		return c.wide(t, ops)
	case "hi":
		return c.high(t, ops)
	}
	if t.Pack == 2 {
		return c.packedInt(m.Name, t, ops)
	}
	if sat {
		return c.saturating(m.Name, t, ops)
	}
	shift := t
	if m.Name == "shl" || m.Name == "shr" {
		shift = arith.Types["u32"]
	}
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], shift)
	if s := hotStep(m.Name, t, d, a, b); s != nil {
		return inst{step: s}
	}
	f := arith.BinaryInt(m.Name, t)
	if f == nil {
		c.fail("unknown instruction %s for type %c%d", m.Name, t.Class, t.Bits)
	}
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		return arith.Extend(f(arith.Extend(x, t), arith.Extend(y, shift)), arith.UnsignedOf(t))
	})}
}

// saturating decodes add.sat.s32 and sub.sat.s32.
func (c *compiler) saturating(name string, t arith.Type, ops []syntax.Operand) inst {
	if t.Class != 's' || t.Bits != 32 {
		c.fail("%s.sat for this type", name)
	}
	f := arith.BinaryInt(name, t)
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		v := int64(f(arith.Extend(x, t), arith.Extend(y, t)))
		return uint64(min(max(v, -1<<31), 1<<31-1))
	})}
}

// packedInt decodes add.u16x2 and its like.
func (c *compiler) packedInt(name string, t arith.Type, ops []syntax.Operand) inst {
	one := arith.Scalar(t.Class, t.Bits)
	f := arith.BinaryInt(name, one)
	if f == nil {
		c.fail("unknown instruction %s for packed integers", name)
	}
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		low := f(arith.Extend(x, one), arith.Extend(y, one)) & 0xffff
		return low | f(arith.Extend(x>>16, one), arith.Extend(y>>16, one))&0xffff<<16
	})}
}

func (c *compiler) predicateLogic(name string, ops []syntax.Operand) inst {
	d, a, b := c.outPred(ops[0]), c.inPred(ops[1]), c.inPred(ops[2])
	var f func(a, b uint32) uint32
	switch name {
	case "and":
		f = func(a, b uint32) uint32 { return a & b }
	case "or":
		f = func(a, b uint32) uint32 { return a | b }
	case "xor":
		f = func(a, b uint32) uint32 { return a ^ b }
	default:
		c.fail("unknown instruction %s.pred", name)
	}
	return inst{step: func(w *warp, mask uint32) { w.setPred(d, f(a.of(w), b.of(w)), mask) }}
}

func (w *warp) setPred(d slot, value, mask uint32) { w.p[d] = w.p[d]&^mask | value&mask }

// wide decodes mul.wide: the product has twice the width.
func (c *compiler) wide(t arith.Type, ops []syntax.Operand) inst {
	d, a, b := c.out(ops[0], arith.Scalar(t.Class, 2*t.Bits)), c.in(ops[1], t), c.in(ops[2], t)
	if t.Bits != 32 || !d.wide {
		return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 { return arith.Extend(x, t) * arith.Extend(y, t) })}
	}
	op := arith.WideUnsigned
	if t.Signed() {
		op = arith.WideSigned
	}
	return inst{step: func(w *warp, mask uint32) {
		if mask == w.live {
			op(&w.q[d.slot], &w.r[a.slot], &w.r[b.slot])
			return
		}
		op(&w.u, &w.r[a.slot], &w.r[b.slot])
		blend(&w.q[d.slot], &w.u, mask)
	}}
}

func (c *compiler) high(t arith.Type, ops []syntax.Operand) inst {
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 { return arith.HighProduct(x, y, t) })}
}

// buildMad decodes mad and fma.
func buildMad(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	mode := arith.FloatMode{Rounding: m.Take("rn", "rz", "rm", "rp"), FTZ: m.Has("ftz"), Saturate: m.Has("sat")}
	relu := m.Has("relu")
	half := m.Take("lo", "hi", "wide")
	t := c.typed(m)
	if t.Float() {
		return c.floatFma(t, mode, relu, ops)
	}
	wide := t
	if half == "wide" {
		wide.Bits *= 2
	}
	d, a, b, e := c.out(ops[0], wide), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], wide)
	if half == "lo" && t.Bits == 32 && !d.wide {
		return inst{step: ternary32(d.slot, a.slot, b.slot, e.slot, arith.MadLanes)}
	}
	return inst{step: lanes3(d, a, b, e, func(x, y, z uint64) uint64 {
		if half == "hi" {
			return arith.Extend(arith.HighProduct(x, y, t)+z, arith.UnsignedOf(t))
		}
		return arith.Extend(arith.Extend(x, t)*arith.Extend(y, t)+z, arith.UnsignedOf(wide))
	})}
}

// buildUnary decodes not, neg, abs, popc, clz, brev and cnot.
func buildUnary(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	ftz := m.Has("ftz")
	t := c.typed(m)
	if t.Class == 'p' && m.Name == "not" {
		d, a := c.outPred(ops[0]), c.inPred(ops[1])
		return inst{step: func(w *warp, mask uint32) { w.setPred(d, ^a.of(w), mask) }}
	}
	if t.Float() {
		return c.floatSign(m.Name, t, ftz, ops)
	}
	to := t
	if m.Name == "popc" || m.Name == "clz" {
		to = arith.Types["u32"]
	}
	d, a := c.out(ops[0], to), c.in(ops[1], t)
	f := arith.UnaryInt(m.Name, t)
	if f == nil {
		c.fail("unknown instruction %q", m.Name)
	}
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		return arith.Extend(f(arith.Extend(x, t)), arith.UnsignedOf(to))
	})}
}
