package ptx

import "math/bits"

// buildArithmetic decodes add, sub, min, max, and, or, xor, shl, shr, div, rem
// and mul for integers; floating-point types go to their own builders.
func buildArithmetic(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	rounding := m.take("rn", "rz", "rm", "rp", "approx", "full")
	ftz, nan, xorsign := m.has("ftz"), m.has("NaN"), m.has("xorsign")
	sat := m.has("sat")
	half := m.take("lo", "hi", "wide")
	abs := m.has("abs")
	t := c.typed(m)
	if t.float() {
		return c.floatBinary(m.name, t, floatMode{rounding, ftz, sat, nan}, ops)
	}
	if t.class == 'p' {
		return c.predicateLogic(m.name, ops)
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
	if t.pack == 2 {
		return c.packedInt(m.name, t, ops)
	}
	if sat {
		return c.saturating(m.name, t, ops)
	}
	shift := t
	if m.name == "shl" || m.name == "shr" {
		shift = types["u32"]
	}
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], shift)
	if s := hotStep(m.name, t, d, a, b); s != nil {
		return inst{step: s}
	}
	f := values2(m.name, t)
	if f == nil {
		c.fail("unknown instruction %s for type %c%d", m.name, t.class, t.bits)
	}
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		return extend(f(extend(x, t), extend(y, shift)), unsignedOf(t))
	})}
}

func unsignedOf(t typ) typ { return typ{'u', t.bits, 1} }

// saturating decodes add.sat.s32 and sub.sat.s32.
func (c *compiler) saturating(name string, t typ, ops []operand) inst {
	if t.class != 's' || t.bits != 32 {
		c.fail("%s.sat for this type", name)
	}
	f := values2(name, t)
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		v := int64(f(extend(x, t), extend(y, t)))
		return uint64(min(max(v, -1<<31), 1<<31-1))
	})}
}

// packedInt decodes add.u16x2 and its like.
func (c *compiler) packedInt(name string, t typ, ops []operand) inst {
	one := typ{t.class, t.bits, 1}
	f := values2(name, one)
	if f == nil {
		c.fail("unknown instruction %s for packed integers", name)
	}
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 {
		low := f(extend(x, one), extend(y, one)) & 0xffff
		return low | f(extend(x>>16, one), extend(y>>16, one))&0xffff<<16
	})}
}

func (c *compiler) predicateLogic(name string, ops []operand) inst {
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
func (c *compiler) wide(t typ, ops []operand) inst {
	d, a, b := c.out(ops[0], typ{t.class, 2 * t.bits, 1}), c.in(ops[1], t), c.in(ops[2], t)
	if t.bits != 32 || !d.wide {
		return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 { return extend(x, t) * extend(y, t) })}
	}
	op := wideUnsigned
	if t.signed() {
		op = wideSigned
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

func wideUnsigned(d *v64, a, b *v32) {
	for i := range d {
		d[i] = uint64(a[i]) * uint64(b[i])
	}
}

func wideSigned(d *v64, a, b *v32) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

// highProduct returns the upper half of a product.
func highProduct(x, y uint64, t typ) uint64 {
	x, y = extend(x, t), extend(y, t)
	if t.bits < 64 {
		return extend(x*y>>t.bits, unsignedOf(t))
	}
	hi, _ := bits.Mul64(x, y)
	if t.signed() {
		hi -= x>>63*y + y>>63*x
	}
	return hi
}

func (c *compiler) high(t typ, ops []operand) inst {
	d, a, b := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], t)
	return inst{step: lanes2(d, a, b, func(x, y uint64) uint64 { return highProduct(x, y, t) })}
}

// buildMad decodes mad and fma.
func buildMad(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 4, 4) {
		return inst{}
	}
	mode := floatMode{rounding: m.take("rn", "rz", "rm", "rp"), ftz: m.has("ftz"), sat: m.has("sat")}
	relu := m.has("relu")
	half := m.take("lo", "hi", "wide")
	t := c.typed(m)
	if t.float() {
		return c.floatFma(t, mode, relu, ops)
	}
	wide := t
	if half == "wide" {
		wide.bits *= 2
	}
	d, a, b, e := c.out(ops[0], wide), c.in(ops[1], t), c.in(ops[2], t), c.in(ops[3], wide)
	if half == "lo" && t.bits == 32 && !d.wide {
		return inst{step: ternary32(d.slot, a.slot, b.slot, e.slot, madLanes)}
	}
	return inst{step: lanes3(d, a, b, e, func(x, y, z uint64) uint64 {
		if half == "hi" {
			return extend(highProduct(x, y, t)+z, unsignedOf(t))
		}
		return extend(extend(x, t)*extend(y, t)+z, unsignedOf(wide))
	})}
}

func madLanes(d, a, b, c *v32) {
	for i := range d {
		d[i] = a[i]*b[i] + c[i]
	}
}

// buildUnary decodes not, neg, abs, popc, clz, brev and cnot.
func buildUnary(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	ftz := m.has("ftz")
	t := c.typed(m)
	if t.class == 'p' && m.name == "not" {
		d, a := c.outPred(ops[0]), c.inPred(ops[1])
		return inst{step: func(w *warp, mask uint32) { w.setPred(d, ^a.of(w), mask) }}
	}
	if t.float() {
		return c.floatSign(m.name, t, ftz, ops)
	}
	to := t
	if m.name == "popc" || m.name == "clz" {
		to = types["u32"]
	}
	d, a := c.out(ops[0], to), c.in(ops[1], t)
	f := values1(m.name, t)
	if f == nil {
		c.fail("unknown instruction %q", m.name)
	}
	return inst{step: lanes1(d, a, func(x uint64) uint64 { return extend(f(extend(x, t)), unsignedOf(to)) })}
}

func values1(name string, t typ) func(uint64) uint64 {
	switch name {
	case "not":
		return func(x uint64) uint64 { return ^x }
	case "neg":
		return func(x uint64) uint64 { return -x }
	case "abs":
		return func(x uint64) uint64 { return uint64(max(int64(x), -int64(x))) }
	case "popc":
		return func(x uint64) uint64 { return uint64(bits.OnesCount64(x)) }
	case "clz":
		return func(x uint64) uint64 { return uint64(bits.LeadingZeros64(x) - 64 + t.bits) }
	case "brev":
		return func(x uint64) uint64 { return bits.Reverse64(x) >> (64 - t.bits) }
	case "cnot":
		return func(x uint64) uint64 { return pick(x == 0, 1, 0) }
	}
	return nil
}
