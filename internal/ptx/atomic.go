package ptx

import (
	"math/bits"
)

func buildAtom(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 3, 5) {
		return inst{}
	}
	return c.atomic(m, &ops[0], ops[1], ops[2:])
}

func buildRed(c *compiler, m *modifiers, ops []operand) inst {
	if !c.operands(ops, 2, 3) {
		return inst{}
	}
	return c.atomic(m, nil, ops[0], ops[1:])
}

// atomic decodes atom and red: read, compute and write, for one lane after another.
func (c *compiler) atomic(m *modifiers, dst *operand, addr operand, args []operand) inst {
	ordered(m)
	dropHints(m)
	m.drop("noftz")
	sp := c.takeSpace(m)
	n := m.vector()
	name := m.take("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
	t := c.typed(m)
	f := atomicFunction(name, t)
	if f == nil || t.bits*t.pack > 64 {
		c.fail("unknown atomic operation .%s", name)
		return inst{}
	}
	var out []ref
	if dst != nil {
		for _, e := range c.elements(*dst, n) {
			out = append(out, c.out(e, t))
		}
	}
	src := make([]ref, 0, n)
	for _, e := range c.elements(args[0], n) {
		src = append(src, c.in(e, t))
	}
	with := src[0]
	if name == "cas" {
		if len(args) < 2 {
			c.fail("atom.cas needs two values")
			return inst{}
		}
		with = c.in(args[1], t)
	}
	a := &access{space: sp, size: t.size() * n, write: true, strong: true}
	at, size := c.memory(addr), t.size()
	return inst{step: func(w *warp, mask uint32) {
		w.b.run.d.atomics.Lock()
		defer w.b.run.d.atomics.Unlock()
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask)
			data := w.bytes(a, lane, at.lane(w, lane))
			for i := range src {
				word := data[i*size:]
				old := widen(word, size, false, true)
				put(word, size, f(old, src[i].get(w, lane), with.get(w, lane)))
				if out != nil {
					out[i].set(w, lane, old)
				}
			}
		}
		w.b.events++
		w.strong++
	}}
}

// atomicFunction returns what is written: of the old value and the operands.
func atomicFunction(name string, t typ) func(old, b, c uint64) uint64 {
	width := unsignedOf(typ{'u', t.bits * t.pack, 1})
	switch name {
	case "exch":
		return func(_, b, _ uint64) uint64 { return b }
	case "cas":
		return func(old, b, c uint64) uint64 { return pick(old == extend(b, width), c, old) }
	case "inc":
		return func(old, b, _ uint64) uint64 { return pick(old >= b, 0, old+1) }
	case "dec":
		return func(old, b, _ uint64) uint64 { return pick(old == 0 || old > b, b, old-1) }
	}
	if t.float() {
		f := floatFunction(name, floatMode{})
		if f == nil {
			return nil
		}
		return func(old, b, _ uint64) uint64 {
			return packed(t, func(shift int) uint64 {
				return finish(t, floatMode{}, f(toFloat(t, old>>shift), toFloat(t, b>>shift)))
			})
		}
	}
	f := values2(name, t)
	if f == nil || name == "shl" {
		return nil
	}
	return func(old, b, _ uint64) uint64 { return f(extend(old, t), extend(b, t)) }
}
