package ptx

import (
	"math/bits"

	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

func buildAtom(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 3, 5) {
		return inst{}
	}
	return c.atomic(m, &ops[0], ops[1], ops[2:])
}

func buildRed(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !c.operands(ops, 2, 3) {
		return inst{}
	}
	return c.atomic(m, nil, ops[0], ops[1:])
}

// atomic decodes atom and red: read, compute and write, for one lane after another.
func (c *compiler) atomic(m *syntax.Modifiers, dst *syntax.Operand, addr syntax.Operand, args []syntax.Operand) inst {
	ordered(m)
	dropHints(m)
	m.Drop("noftz")
	sp := c.takeSpace(m)
	n := m.VectorSize()
	name := m.Take("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
	t := c.typed(m)
	f := arith.Atomic(name, t)
	if f == nil || t.Bits*t.Pack > 64 {
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
	a := &access{space: sp, size: t.Size() * n, write: true, strong: true}
	at, size := c.memory(addr), t.Size()
	return inst{step: func(w *warp, mask uint32) {
		w.b.run.d.atomics.Lock()
		defer w.b.run.d.atomics.Unlock()
		for ; mask != 0; mask &= mask - 1 {
			lane := bits.TrailingZeros32(mask)
			data := w.bytes(a, lane, at.lane(w, lane))
			for i := range src {
				word := data[i*size:]
				old := arith.Load(word, size, false, true)
				arith.Store(word, size, f(old, src[i].get(w, lane), with.get(w, lane)))
				if out != nil {
					out[i].set(w, lane, old)
				}
			}
		}
		w.b.events++
		w.strong++
	}}
}
