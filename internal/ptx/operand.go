package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// in32 returns the slot of a source of at most 32 bits: a register, or a
// constant of type t.
func (c *compiler) in32(op syntax.Operand, t arith.Type) slot {
	if op.Minus || op.Not {
		c.fail("a negated operand is not supported here")
	}
	switch op.Kind {
	case syntax.NameOperand:
		if s, ok := c.specialSlot(op.Name, false); ok {
			return s
		}
		sym, ok := c.scope.lookup(op.Name)
		if ok && sym.kind == symReg32 {
			c.touched.uses = append(c.touched.uses, sym.slot)
			return sym.slot
		}
		if a, isAddress := c.address(op); isAddress {
			return c.narrow(a)
		}
		c.fail("%s is not a 32-bit register", op.Name)
	case syntax.IntOperand:
		v := uint32(op.Value)
		if t.Bits*max(t.Pack, 1) == 16 {
			v &= 0xffff
		}
		return c.k.constant32(v)
	case syntax.FloatOperand:
		return c.k.constant32(uint32(syntax.FloatBits(op, t)))
	default:
		c.fail("a register or a constant of 32 bits must stand here")
	}
	return 0
}

// narrow turns the slot of a 64-bit constant address into a 32-bit one, for
// mov.u32 of a shared variable's address.
func (c *compiler) narrow(wide slot) slot {
	for v, s := range c.k.const64 {
		if s == wide {
			return c.k.constant32(uint32(v))
		}
	}
	if offset, ok := c.late[wide]; ok {
		s := c.k.fresh32()
		c.k.specials = append(c.k.specials, special{slot: s, fill: func(w *warp, _ int) uint64 {
			return uint64(int64(w.k.dynamic) + offset)
		}})
		return s
	}
	c.fail("an address of 64 bits in 32 bits")
	return 0
}

// in64 returns the slot of a 64-bit source: register, constant or address.
func (c *compiler) in64(op syntax.Operand, t arith.Type) slot {
	if op.Minus || op.Not {
		c.fail("a negated operand is not supported here")
	}
	switch op.Kind {
	case syntax.NameOperand:
		if s, ok := c.specialSlot(op.Name, true); ok {
			return s
		}
		sym, ok := c.scope.lookup(op.Name)
		if ok && sym.kind == symReg64 {
			return sym.slot
		}
		if a, ok := c.address(op); ok {
			return a
		}
		c.fail("%s is not a 64-bit register", op.Name)
	case syntax.IntOperand:
		return c.k.constant64(op.Value)
	case syntax.FloatOperand:
		return c.k.constant64(syntax.FloatBits(op, t))
	default:
		c.fail("a register or a constant of 64 bits must stand here")
	}
	return 0
}

// address returns a slot that holds the address of a variable in its own space.
func (c *compiler) address(op syntax.Operand) (slot, bool) {
	sym, ok := c.scope.lookup(op.Name)
	if ok {
		switch sym.kind {
		case symShared, symLocal, symParam:
			return c.k.constant64(uint64(int64(sym.offset) + op.Offset)), true
		}
		return 0, false
	}
	v := c.module.variables[op.Name]
	if v == nil {
		return 0, false
	}
	if v.Space != "shared" {
		s := c.k.fresh64()
		c.k.symbols = append(c.k.symbols, relocation{slot: s, symbol: op.Name, offset: op.Offset})
		return s, true
	}
	if v.Extern {
		s := c.k.fresh64()
		c.late[s] = op.Offset
		return s, true
	}
	at, ok := c.shared[op.Name]
	if !ok {
		at = c.placeShared(*v)
		c.shared[op.Name] = at
	}
	return c.k.constant64(uint64(int64(at) + op.Offset)), true
}

func (c *compiler) inPred(op syntax.Operand) predicate {
	flip := uint32(0)
	if op.Not {
		flip = arith.AllLanes
	}
	switch op.Kind {
	case syntax.IntOperand:
		if op.Value == 0 {
			flip = ^flip
		}
		return predicate{0, flip}
	case syntax.NameOperand:
		if sym, ok := c.scope.lookup(op.Name); ok && sym.kind == symPred {
			return predicate{sym.slot, flip}
		}
	}
	c.fail("%s is not a predicate register", op.Name)
	return predicate{}
}

func (c *compiler) outPred(op syntax.Operand) slot {
	if op.Kind == syntax.SinkOperand {
		c.k.npred++
		return slot(c.k.npred - 1)
	}
	if sym, ok := c.scope.lookup(op.Name); ok && sym.kind == symPred && op.Kind == syntax.NameOperand {
		return sym.slot
	}
	c.fail("%s is not a predicate register", op.Name)
	return 0
}

func (c *compiler) out32(op syntax.Operand) slot {
	if op.Kind == syntax.SinkOperand {
		return c.k.fresh32()
	}
	if sym, ok := c.scope.lookup(op.Name); ok && sym.kind == symReg32 && op.Kind == syntax.NameOperand {
		c.touched.uses, c.touched.writes = append(c.touched.uses, sym.slot), append(c.touched.writes, sym.slot)
		return sym.slot
	}
	c.fail("%s is not a 32-bit register", op.Name)
	return 0
}

func (c *compiler) out64(op syntax.Operand) slot {
	if op.Kind == syntax.SinkOperand {
		return c.k.fresh64()
	}
	if sym, ok := c.scope.lookup(op.Name); ok && sym.kind == symReg64 && op.Kind == syntax.NameOperand {
		return sym.slot
	}
	c.fail("%s is not a 64-bit register", op.Name)
	return 0
}

// A ref is a register of either file.
type ref struct {
	slot slot
	wide bool
	half bool // of 16 bits: the upper ones of its slot stay zero
}

func (r ref) get(w *warp, lane int) uint64 {
	if r.wide {
		return w.q[r.slot][lane]
	}
	return uint64(w.r[r.slot][lane])
}

func (r ref) set(w *warp, lane int, v uint64) {
	switch {
	case r.wide:
		w.q[r.slot][lane] = v
	case r.half:
		w.r[r.slot][lane] = uint32(v & 0xffff)
	default:
		w.r[r.slot][lane] = uint32(v)
	}
}

// in returns a source of either file: a register of any width, or a constant
// as wide as t.
func (c *compiler) in(op syntax.Operand, t arith.Type) ref {
	if op.Kind == syntax.NameOperand {
		if sym, ok := c.scope.lookup(op.Name); ok {
			switch sym.kind {
			case symReg64:
				return ref{slot: c.in64(op, t), wide: true}
			case symReg32:
				return ref{slot: c.in32(op, t)}
			}
		}
	}
	if t.Bits*max(t.Pack, 1) > 32 {
		return ref{slot: c.in64(op, t), wide: true}
	}
	return ref{slot: c.in32(op, t)}
}

// out returns a destination of either file.
func (c *compiler) out(op syntax.Operand, t arith.Type) ref {
	sym, ok := c.scope.lookup(op.Name)
	if ok && op.Kind == syntax.NameOperand && sym.kind == symReg64 || op.Kind == syntax.SinkOperand && t.Bits > 32 {
		return ref{slot: c.out64(op), wide: true}
	}
	return ref{slot: c.out32(op), half: ok && sym.typ.Bits*sym.typ.Pack == 16}
}

// operands checks the number of operands.
func (c *compiler) operands(ops []syntax.Operand, low, high int) bool {
	if len(ops) < low || len(ops) > high {
		c.fail("%d operands, where %d to %d are expected", len(ops), low, high)
		return false
	}
	return true
}

// typed takes the instruction's type, which must be there.
func (c *compiler) typed(m *syntax.Modifiers) arith.Type {
	t, ok := m.TakeType()
	if !ok {
		c.fail("instruction %s without a type", m.Name)
	}
	return t
}
