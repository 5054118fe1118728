package ptx

import "math/bits"

// buildLop3 decodes lop3.b32, any logic function of three operands.
func buildLop3(c *compiler, m *modifiers, ops []operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 5, 5) {
		return inst{}
	}
	d, x, y, z := c.out32(ops[0]), c.in32(ops[1], t), c.in32(ops[2], t), c.in32(ops[3], t)
	table := ops[4].value
	return inst{step: ternary32(d, x, y, z, func(d, a, b, e *v32) {
		for i := range d {
			d[i] = lop3(a[i], b[i], e[i], table)
		}
	})}
}

func lop3(a, b, c uint32, table uint64) (out uint32) {
	for i := range 8 {
		if table>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^a
		}
		if i&2 == 0 {
			y = ^b
		}
		if i&1 == 0 {
			z = ^c
		}
		out |= x & y & z
	}
	return out
}

// buildBfe decodes bfe: a field of bits, extended.
func buildBfe(c *compiler, m *modifiers, ops []operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	u := types["u32"]
	d, a, at, n := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], u), c.in(ops[3], u)
	return inst{step: lanes3(d, a, at, n, func(x, at, n uint64) uint64 { return bitField(x, at, n, t) })}
}

func bitField(x, at, n uint64, t typ) uint64 {
	at, n = at&0xff, n&0xff
	x = extend(x, t)
	if n == 0 {
		return 0
	}
	width := uint64(t.bits)
	if t.signed() {
		top := min(at+n, width)
		if at >= width { // only copies of the sign are left
			return extend(uint64(int64(x)>>63), unsignedOf(t))
		}
		return extend(uint64(int64(x<<(64-top))>>(64-top+at)), unsignedOf(t))
	}
	if at >= width {
		return 0
	}
	x >>= at
	if n < 64 {
		x &= 1<<n - 1
	}
	return x
}

// buildBfi decodes bfi: a field of bits inserted into another value.
func buildBfi(c *compiler, m *modifiers, ops []operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 5, 5) {
		return inst{}
	}
	u := types["u32"]
	d, a, b, at, n := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], u), c.in(ops[4], u)
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			at, n := min(at.get(w, i)&0xff, 64), min(n.get(w, i)&0xff, 64)
			field := (^uint64(0) >> (64 - n)) << at
			if n == 0 {
				field = 0
			}
			d.set(w, i, extend(a.get(w, i)<<at&field|b.get(w, i)&^field, unsignedOf(t)))
		})
	}}
}

// buildPrmt decodes prmt: bytes picked from two registers.
func buildPrmt(c *compiler, m *modifiers, ops []operand) inst {
	mode := m.take("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	if mode != "" {
		c.fail("prmt.%s is not supported", mode)
	}
	d, a, b, s := c.out32(ops[0]), c.in32(ops[1], t), c.in32(ops[2], t), c.in32(ops[3], t)
	return inst{step: ternary32(d, a, b, s, func(d, a, b, s *v32) {
		for i := range d {
			d[i] = permute(a[i], b[i], s[i])
		}
	})}
}

func permute(a, b, selector uint32) (out uint32) {
	all := uint64(b)<<32 | uint64(a)
	for i := range 4 {
		pick := selector >> (4 * i) & 15
		v := uint32(all>>(8*(pick&7))) & 0xff
		if pick&8 != 0 {
			v = uint32(int32(int8(v))>>7) & 0xff
		}
		out |= v << (8 * i)
	}
	return out
}

// buildShf decodes the funnel shifts shf.l and shf.r.
func buildShf(c *compiler, m *modifiers, ops []operand) inst {
	left, wrap := m.take("l", "r") == "l", m.take("wrap", "clamp") == "wrap"
	t := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, s := c.out32(ops[0]), c.in32(ops[1], t), c.in32(ops[2], t), c.in32(ops[3], t)
	return inst{step: ternary32(d, a, b, s, func(d, a, b, s *v32) {
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
func buildFind(c *compiler, m *modifiers, ops []operand) inst {
	shift := m.has("shiftamt")
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.out(ops[0], types["u32"]), c.in(ops[1], t)
	return inst{step: lanes1(d, a, func(x uint64) uint64 {
		x = extend(x, t)
		if t.signed() && int64(x) < 0 {
			x = ^x
		}
		if x == 0 {
			return allLanes
		}
		at := bits.Len64(x) - 1
		if shift {
			at = t.bits - 1 - at
		}
		return uint64(at)
	})}
}

// buildDp4a decodes dp4a and dp2a's four-byte sibling: a dot product of bytes.
func buildDp4a(c *compiler, m *modifiers, ops []operand) inst {
	ta, _ := m.takeType()
	tb := c.typed(m)
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	d, a, b, e := c.out32(ops[0]), c.in32(ops[1], ta), c.in32(ops[2], tb), c.in32(ops[3], ta)
	ea, eb := typ{ta.class, 8, 1}, typ{tb.class, 8, 1}
	if ta.signed() && tb.signed() {
		return inst{step: ternary32(d, a, b, e, dotSigned)}
	}
	return inst{step: ternary32(d, a, b, e, func(d, a, b, e *v32) {
		for i := range d {
			sum := e[i]
			for j := range 4 {
				sum += uint32(extend(uint64(a[i]>>(8*j)), ea) * extend(uint64(b[i]>>(8*j)), eb))
			}
			d[i] = sum
		}
	})}
}

func dotSigned(d, a, b, e *v32) {
	for i := range d {
		x, y := a[i], b[i]
		d[i] = e[i] + uint32(int32(int8(x))*int32(int8(y))+
			int32(int8(x>>8))*int32(int8(y>>8))+
			int32(int8(x>>16))*int32(int8(y>>16))+
			int32(int8(x>>24))*int32(int8(y>>24)))
	}
}
