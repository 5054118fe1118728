package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// buildCvt decodes cvt between all types, and the packing forms with two sources.
func buildCvt(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 2, 3) {
		return inst{}
	}
	v := arith.Conversion{
		Rounding: m.Take("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"),
		FTZ:      m.Has("ftz"),
		Saturate: m.Has("sat"),
		Finite:   m.Has("satfinite"),
		Relu:     m.Has("relu"),
	}
	if pack := m.Has("pack"); pack {
		c.fail("cvt.pack is not supported")
	}
	v.To, v.From = c.typed(m), c.typed(m)
	if c.err != nil {
		return inst{}
	}
	d, a := c.out(ops[0], v.To), c.in(ops[1], v.From)
	if s := c.hotCvt(v, d, a, ops); s != nil {
		return inst{step: s}
	}
	if len(ops) == 3 {
		b := c.in(ops[2], v.From)
		one := v
		one.To.Pack = 1
		return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
			return one.Float(x)<<one.To.Bits | one.Float(y)
		})}
	}
	f := v.Function()
	if f == nil {
		c.fail("unknown conversion")
		return inst{}
	}
	return inst{step: lanes1(d, a, f)}
}

// hotCvt returns the fast steps of the conversions that kernels do most.
func (c *compiler) hotCvt(v arith.Conversion, d, a ref, ops []syntax.Operand) step {
	if v.Saturate || v.FTZ || v.Finite || v.Relu || len(ops) == 3 && v.To.Class != 'h' {
		return nil
	}
	from, to := v.From, v.To
	switch {
	case len(ops) == 3 && v.Rounding == "rn":
		return binary32(d.slot, a.slot, c.in32(ops[2], from), arith.PackBF16)
	case len(ops) == 3:
		return nil
	case to.Bits == 64 && to.Class != 'f' && from.Bits == 32 && from.Class != 'f' && d.wide && !a.wide:
		return widenStep(d.slot, a.slot, from.Signed())
	case to.Bits == 32 && to.Class != 'f' && from.Bits == 64 && from.Class != 'f' && !d.wide && a.wide:
		return narrowStep(d.slot, a.slot)
	case to.Class == 'h' && from.Bits == 32 && v.Rounding == "rn":
		return unary32(d.slot, a.slot, arith.ToBF16)
	case from.Class == 'h' && to.Bits == 32 && to.Class == 'f':
		return unary32(d.slot, a.slot, arith.FromBF16)
	case from.Class == 'f' && from.Bits == 16 && to.Bits == 32 && to.Class == 'f' && v.Rounding == "":
		return unary32(d.slot, a.slot, arith.FromF16)
	case from.Class == 's' && from.Bits == 32 && to.Class == 'f' && to.Bits == 32 && v.Rounding == "rn":
		return unary32(d.slot, a.slot, arith.FromS32)
	}
	return nil
}

func widenStep(d, a slot, signed bool) step {
	return func(w *warp, mask uint32) {
		from, to := &w.r[a], &w.q[d]
		if mask != w.live {
			to = &w.u
		}
		if signed {
			for i := range to {
				to[i] = uint64(int64(int32(from[i])))
			}
		} else {
			for i := range to {
				to[i] = uint64(from[i])
			}
		}
		if mask != w.live {
			blend(&w.q[d], to, mask)
		}
	}
}

func narrowStep(d, a slot) step {
	return func(w *warp, mask uint32) {
		from, to := &w.q[a], &w.r[d]
		if mask != w.live {
			to = &w.t
		}
		for i := range to {
			to[i] = uint32(from[i])
		}
		if mask != w.live {
			blend(&w.r[d], to, mask)
		}
	}
}
