package ptx

import (
	"math"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// floatBinary decodes a two-operand floating-point instruction.
func (c *compiler) floatBinary(name string, t arith.Type, mode arith.FloatMode, ops []syntax.Operand) inst {
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	if op, ok := arith.HotFloat32[name]; ok && mode.Plain() && t.Bits == 32 && !d.wide && !a.wide && !b.wide {
		return inst{step: binary32(d.slot, a.slot, b.slot, op)}
	}
	f := arith.BinaryFloat(name, t, mode)
	if f == nil || name == "div" && t.Bits == 16 {
		c.fail("unknown instruction %s for a floating-point type", name)
		return inst{}
	}
	c.exact(t, mode)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		return arith.EachPacked(t, func(shift int) uint64 {
			return arith.Finish(t, mode, f(arith.Flushed(t, mode, x>>shift), arith.Flushed(t, mode, y>>shift)))
		})
	})}
}

// exact refuses roundings that float64 arithmetic cannot give.
func (c *compiler) exact(t arith.Type, mode arith.FloatMode) {
	if t.Bits == 64 && mode.Rounding != "" && mode.Rounding != "rn" {
		c.fail("rounding .%s of f64 is not supported", mode.Rounding)
	}
}

// floatFma decodes fma and mad of floating-point types.
func (c *compiler) floatFma(t arith.Type, mode arith.FloatMode, relu bool, ops []syntax.Operand) inst {
	d, a, b, e := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], t)
	if t.Bits == 32 && mode.Plain() && !relu && !d.wide {
		return inst{step: ternary32(d.slot, a.slot, b.slot, e.slot, arith.FMAF32)}
	}
	c.exact(t, mode)
	return inst{step: lanes3(d, a, b, e, func(x, y, z uint64) uint64 {
		return arith.EachPacked(t, func(shift int) uint64 {
			p, q := arith.Flushed(t, mode, x>>shift), arith.Flushed(t, mode, y>>shift)
			r := arith.Flushed(t, mode, z>>shift)
			v := 0.0
			if t.Bits == 64 {
				v = math.FMA(p, q, r)
			} else {
				v = arith.OddSum(p*q, r)
			}
			if relu && !(v > 0) && v == v {
				v = 0
			}
			return arith.Finish(t, mode, v)
		})
	})}
}

// floatSign decodes neg and abs.
func (c *compiler) floatSign(name string, t arith.Type, ftz bool, ops []syntax.Operand) inst {
	d, a := c.out(ops[0], t), c.in(ops[1], t)
	sign := uint64(1) << (t.Bits - 1)
	if t.Pack == 2 {
		sign |= sign << 16
	}
	mode := arith.FloatMode{FTZ: ftz}
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		if ftz {
			x = arith.EachPacked(t, func(shift int) uint64 {
				return arith.FromFloat(t, arith.Flushed(t, mode, x>>shift), arith.RoundNearest)
			})
		}
		if name == "neg" {
			return x ^ sign
		}
		return x &^ sign
	})}
}

// buildFunction decodes sqrt, rsqrt, rcp, ex2, lg2, sin, cos and tanh. They are
// computed in float64 and rounded once.
func buildFunction(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	mode := arith.FloatMode{Rounding: m.Take("rn", "rz", "rm", "rp", "approx", "full"), FTZ: m.Has("ftz")}
	t := c.typed(m)
	c.exact(t, arith.FloatMode{Rounding: arith.KnownRounding(mode.Rounding)})
	f := arith.FloatFunctions[m.Name]
	d, a := c.out(ops[0], t), c.in(ops[1], t)
	if m.Name == "ex2" && t.Class == 'f' && t.Bits == 32 {
		mode.Saturate = false
	}
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		return arith.EachPacked(t, func(shift int) uint64 {
			return arith.Finish(t, mode, f(arith.Flushed(t, mode, x>>shift)))
		})
	})}
}

// buildTestp decodes testp: the class of a number.
func buildTestp(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	class := m.Take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.outPred(ops[0]), c.in(ops[1], t)
	return inst{step: func(w *warp, mask uint32) {
		var out uint32
		eachLane(mask, func(i int) {
			if arith.IsClass(class, t, arith.ToFloat(t, a.get(w, i))) {
				out |= 1 << i
			}
		})
		w.setPred(d, out, mask)
	}}
}

// buildCopysign decodes copysign.
func buildCopysign(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	sign := uint64(1) << (t.Bits - 1)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 { return y&^sign | x&sign })}
}
