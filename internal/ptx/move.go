package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// buildMov decodes mov: registers, constants, addresses, special registers,
// and packing or unpacking of vectors.
func buildMov(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	if t.Class == 'p' {
		d, a := c.outPred(ops[0]), c.inPred(ops[1])
		return inst{step: func(w *warp, mask uint32) { w.setPred(d, a.of(w), mask) }}
	}
	if read, ok := moving[ops[1].Name]; ok && ops[1].Kind == syntax.NameOperand {
		d := c.out(ops[0], t)
		return inst{step: func(w *warp, mask uint32) {
			v := read(w)
			eachLane(mask, func(i int) { d.set(w, i, v) })
		}}
	}
	switch {
	case ops[0].Kind == syntax.VectorOperand:
		return c.unpack(ops[0].List, c.in(ops[1], t), t)
	case ops[1].Kind == syntax.VectorOperand:
		return c.pack(c.out(ops[0], t), ops[1].List, t)
	}
	return c.copyRegister(c.out(ops[0], t), c.in(ops[1], t))
}

func (c *compiler) copyRegister(d, a ref) inst {
	in := inst{copies: true}
	switch {
	case d.wide != a.wide:
		in.step = lanes1(d, a, func(x uint64) uint64 { return x })
	case d.wide:
		in.step = func(w *warp, mask uint32) {
			if mask == w.live {
				w.q[d.slot] = w.q[a.slot]
			} else {
				blend(&w.q[d.slot], &w.q[a.slot], mask)
			}
		}
	default:
		in.step = func(w *warp, mask uint32) {
			if mask == w.live {
				w.r[d.slot] = w.r[a.slot]
			} else {
				blend(&w.r[d.slot], &w.r[a.slot], mask)
			}
		}
	}
	return in
}

// unpack cuts one register into the elements of a vector, lowest first.
func (c *compiler) unpack(list []syntax.Operand, a ref, t arith.Type) inst {
	if len(list) == 0 || t.Bits*t.Pack%len(list) != 0 {
		c.fail("%d bits in %d elements", t.Bits, len(list))
		return inst{}
	}
	width := t.Bits * t.Pack / len(list)
	var dst []ref
	for _, e := range list {
		dst = append(dst, c.out(e, arith.Scalar('b', width)))
	}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			v := a.get(w, i)
			for j, d := range dst {
				d.set(w, i, v>>(j*width)&(1<<width-1))
			}
		})
	}}
}

func (c *compiler) pack(d ref, list []syntax.Operand, t arith.Type) inst {
	if len(list) == 0 || t.Bits*t.Pack%len(list) != 0 {
		c.fail("%d bits in %d elements", t.Bits, len(list))
		return inst{}
	}
	width := t.Bits * t.Pack / len(list)
	var src []ref
	for _, e := range list {
		src = append(src, c.in(e, arith.Scalar('b', width)))
	}
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			var v uint64
			for j, s := range src {
				v |= s.get(w, i) & (1<<width - 1) << (j * width)
			}
			d.set(w, i, v)
		})
	}}
}

var windows = map[space]uint64{spaceGlobal: 0, spaceShared: sharedWindow, spaceLocal: localWindow,
	spaceParam: paramWindow}

// buildCvta decodes cvta: a space's address as a generic one, or back.
func buildCvta(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	back := m.Has("to")
	sp := c.takeSpace(m)
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.out(ops[0], t), c.in(ops[1], t)
	if sp == spaceParam && len(c.ends) > 0 {
		sp = spaceLocal
	}
	base := windows[sp]
	if base == 0 {
		return c.copyRegister(d, a)
	}
	if back {
		base = -base
	}
	return inst{step: lanes1(d, a, func(x uint64) uint64 { return x + base })}
}

// buildIsspacep decodes isspacep: whether a generic address lies in a space.
func buildIsspacep(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	sp := c.takeSpace(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.outPred(ops[0]), c.in(ops[1], arith.Types["u64"])
	return inst{step: func(w *warp, mask uint32) {
		var out uint32
		eachLane(mask, func(i int) {
			if is, _ := w.resolve(i, a.get(w, i)); is == sp {
				out |= 1 << i
			}
		})
		w.setPred(d, out, mask)
	}}
}

// buildMapa decodes mapa: an address of shared memory in another block of the cluster.
func buildMapa(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	shared := m.Take("shared::cluster") != ""
	t := c.typed(m)
	if !c.operands(ops, 3, 3) {
		return inst{}
	}
	d, a, r := c.out(ops[0], t), c.in(ops[1], t), c.in(ops[2], arith.Types["u32"])
	base := uint64(sharedWindow)
	if shared {
		base = 0
	}
	return inst{step: lanes2(d, a, r, func(addr, rank uint64) uint64 {
		return base + (addr-base)&(1<<rankShift-1) + (rank+1)<<rankShift
	})}
}

// buildGetctarank decodes getctarank: which block of the cluster an address belongs to.
func buildGetctarank(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	shared := m.Take("shared::cluster") != ""
	t := c.typed(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, a := c.out(ops[0], arith.Types["u32"]), c.in(ops[1], t)
	return inst{step: func(w *warp, mask uint32) {
		eachLane(mask, func(i int) {
			addr := a.get(w, i)
			if !shared {
				addr -= sharedWindow
			}
			b, _ := w.sharedBlock(i, addr)
			d.set(w, i, uint64(b.rank))
		})
	}}
}
