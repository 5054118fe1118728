package ptx

import "math"

// in32 returns the slot of a source of at most 32 bits: a register, or a
// constant of type t.
func (c *compiler) in32(op operand, t typ) slot {
	if op.minus || op.not {
		c.fail("a negated operand is not supported here")
	}
	switch op.kind {
	case opName:
		if s, ok := c.specialSlot(op.name, false); ok {
			return s
		}
		sym, ok := c.scope.lookup(op.name)
		if ok && sym.kind == symReg32 {
			c.used = append(c.used, sym.slot)
			return sym.slot
		}
		if a, isAddress := c.address(op); isAddress {
			return c.narrow(a)
		}
		c.fail("%s is not a 32-bit register", op.name)
	case opInt:
		v := uint32(op.value)
		if t.bits*max(t.pack, 1) == 16 {
			v &= 0xffff
		}
		return c.constant32(v)
	case opFloat:
		return c.constant32(uint32(floatBits(op, t)))
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
			return c.constant32(uint32(v))
		}
	}
	if offset, ok := c.late[wide]; ok {
		s := c.fresh32()
		c.k.specials = append(c.k.specials, special{slot: s, fill: func(w *warp, _ int) uint64 {
			return uint64(int64(w.k.dynamic) + offset)
		}})
		return s
	}
	c.fail("an address of 64 bits in 32 bits")
	return 0
}

// in64 returns the slot of a 64-bit source: register, constant or address.
func (c *compiler) in64(op operand, t typ) slot {
	if op.minus || op.not {
		c.fail("a negated operand is not supported here")
	}
	switch op.kind {
	case opName:
		if s, ok := c.specialSlot(op.name, true); ok {
			return s
		}
		sym, ok := c.scope.lookup(op.name)
		if ok && sym.kind == symReg64 {
			return sym.slot
		}
		if a, ok := c.address(op); ok {
			return a
		}
		c.fail("%s is not a 64-bit register", op.name)
	case opInt:
		return c.constant64(op.value)
	case opFloat:
		return c.constant64(floatBits(op, t))
	default:
		c.fail("a register or a constant of 64 bits must stand here")
	}
	return 0
}

// address returns a slot that holds the address of a variable in its own space.
func (c *compiler) address(op operand) (slot, bool) {
	sym, ok := c.scope.lookup(op.name)
	if ok {
		switch sym.kind {
		case symShared, symLocal, symParam:
			return c.constant64(uint64(int64(sym.offset) + op.offset)), true
		}
		return 0, false
	}
	v := c.module.variables[op.name]
	if v == nil {
		return 0, false
	}
	if v.space != "shared" {
		s := c.fresh64()
		c.k.symbols = append(c.k.symbols, relocation{slot: s, symbol: op.name, offset: op.offset})
		return s, true
	}
	if v.extern {
		s := c.fresh64()
		c.late[s] = op.offset
		return s, true
	}
	at, ok := c.shared[op.name]
	if !ok {
		at = c.placeShared(*v)
		c.shared[op.name] = at
	}
	return c.constant64(uint64(int64(at) + op.offset)), true
}

func (c *compiler) fresh32() slot { c.k.n32++; return slot(c.k.n32 - 1) }
func (c *compiler) fresh64() slot { c.k.n64++; return slot(c.k.n64 - 1) }

func (c *compiler) constant32(v uint32) slot {
	if s, ok := c.k.const32[v]; ok {
		return s
	}
	s := c.fresh32()
	c.k.const32[v] = s
	return s
}

func (c *compiler) constant64(v uint64) slot {
	if s, ok := c.k.const64[v]; ok {
		return s
	}
	s := c.fresh64()
	c.k.const64[v] = s
	return s
}

// A predicate is a source predicate with its negation.
type predicate struct {
	slot slot
	flip uint32
}

func (p predicate) of(w *warp) uint32 { return w.p[p.slot] ^ p.flip }

func (c *compiler) inPred(op operand) predicate {
	flip := uint32(0)
	if op.not {
		flip = allLanes
	}
	switch op.kind {
	case opInt:
		if op.value == 0 {
			flip = ^flip
		}
		return predicate{0, flip}
	case opName:
		if sym, ok := c.scope.lookup(op.name); ok && sym.kind == symPred {
			return predicate{sym.slot, flip}
		}
	}
	c.fail("%s is not a predicate register", op.name)
	return predicate{}
}

func (c *compiler) outPred(op operand) slot {
	if op.kind == opSink {
		c.k.npred++
		return slot(c.k.npred - 1)
	}
	if sym, ok := c.scope.lookup(op.name); ok && sym.kind == symPred && op.kind == opName {
		return sym.slot
	}
	c.fail("%s is not a predicate register", op.name)
	return 0
}

func (c *compiler) out32(op operand) slot {
	if op.kind == opSink {
		return c.fresh32()
	}
	if sym, ok := c.scope.lookup(op.name); ok && sym.kind == symReg32 && op.kind == opName {
		c.used, c.written = append(c.used, sym.slot), append(c.written, sym.slot)
		return sym.slot
	}
	c.fail("%s is not a 32-bit register", op.name)
	return 0
}

func (c *compiler) out64(op operand) slot {
	if op.kind == opSink {
		return c.fresh64()
	}
	if sym, ok := c.scope.lookup(op.name); ok && sym.kind == symReg64 && op.kind == opName {
		return sym.slot
	}
	c.fail("%s is not a 64-bit register", op.name)
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
func (c *compiler) in(op operand, t typ) ref {
	if op.kind == opName {
		if sym, ok := c.scope.lookup(op.name); ok {
			switch sym.kind {
			case symReg64:
				return ref{slot: c.in64(op, t), wide: true}
			case symReg32:
				return ref{slot: c.in32(op, t)}
			}
		}
	}
	if t.bits*max(t.pack, 1) > 32 {
		return ref{slot: c.in64(op, t), wide: true}
	}
	return ref{slot: c.in32(op, t)}
}

// out returns a destination of either file.
func (c *compiler) out(op operand, t typ) ref {
	sym, ok := c.scope.lookup(op.name)
	if ok && op.kind == opName && sym.kind == symReg64 || op.kind == opSink && t.bits > 32 {
		return ref{slot: c.out64(op), wide: true}
	}
	return ref{slot: c.out32(op), half: ok && sym.typ.bits*sym.typ.pack == 16}
}

// operands checks the number of operands.
func (c *compiler) operands(ops []operand, low, high int) bool {
	if len(ops) < low || len(ops) > high {
		c.fail("%d operands, where %d to %d are expected", len(ops), low, high)
		return false
	}
	return true
}

// typed takes the instruction's type, which must be there.
func (c *compiler) typed(m *modifiers) typ {
	t, ok := m.takeType()
	if !ok {
		c.fail("instruction %s without a type", m.name)
	}
	return t
}

func f32(bits uint32) float32  { return math.Float32frombits(bits) }
func b32(value float32) uint32 { return math.Float32bits(value) }
