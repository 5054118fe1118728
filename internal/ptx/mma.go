package ptx

import (
	"parley/internal/ptx/arith"
	"parley/internal/ptx/syntax"
)

// A matrixShape is one form of mma.sync: 16 rows, 8 columns, depth k.
type matrixShape struct {
	k      int
	a, b   arith.Type
	c      arith.Type
	each   int // elements in a register
	chunks int // registers along k of one row
	halves bool
}

var mmaDepths = map[string]int{"m16n8k4": 4, "m16n8k8": 8, "m16n8k16": 16, "m16n8k32": 32}

// buildMma decodes mma.sync for 16-bit, tf32, eight-bit float and integer types.
func buildMma(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	if !m.Has("sync") || !m.Has("aligned") || !m.Has("row") || !m.Has("col") || !c.operands(ops, 4, 4) {
		c.fail("mma without .sync.aligned.row.col")
		return inst{}
	}
	s := matrixShape{k: mmaDepths[m.Take("m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32")]}
	dst := c.typed(m)
	s.a, s.b, s.c = c.typed(m), c.typed(m), c.typed(m)
	if c.err != nil || s.k == 0 || dst != s.c || !s.known() {
		c.fail("unknown form of mma")
		return inst{}
	}
	s.each = 4 / s.a.Size()
	s.chunks = s.k / (4 * s.each)
	s.halves = s.c.Bits == 16
	results := 4
	if s.halves {
		results = 2
	}
	d := c.outs32(ops[0], results)
	a, b, e := c.ins32(ops[1], 2*s.chunks), c.ins32(ops[2], s.chunks), c.ins32(ops[3], results)
	if s.chunks == 0 {
		c.fail("unknown form of mma")
	}
	if c.err != nil {
		return inst{}
	}
	return inst{kind: kindConverge, step: func(w *warp, _ uint32) { s.multiply(w, d, a, b, e) }}
}

func (s *matrixShape) known() bool {
	integer := s.a.Class == 's' || s.a.Class == 'u'
	switch {
	case integer:
		return s.a.Bits == 8 && s.b.Bits == 8 && s.c == arith.Types["s32"]
	case s.a != s.b && (s.a.Bits != 8 || s.b.Bits != 8):
		return false
	}
	return s.c == arith.Types["f32"] || s.c == arith.Types["f16"] && s.a == arith.Types["f16"]
}

func (c *compiler) outs32(op syntax.Operand, n int) []slot {
	var out []slot
	for _, e := range c.elements(op, n) {
		out = append(out, c.out32(e))
	}
	return out
}

func (c *compiler) ins32(op syntax.Operand, n int) []slot {
	var out []slot
	for _, e := range c.elements(op, n) {
		out = append(out, c.in32(e, arith.Types["b32"]))
	}
	return out
}

func (w *warp) scratch() *tile {
	if w.tile == nil {
		w.tile = new(tile)
	}
	return w.tile
}

// multiply computes d = a b + e of a whole warp.
func (s *matrixShape) multiply(w *warp, d, a, b, e []slot) {
	t := w.scratch()
	if s.a.Class == 's' || s.a.Class == 'u' {
		spread(w, a, s.k, s.a, 2, t.ia[:], arith.SignedByte)
		spread(w, b, s.k, s.b, 1, t.ib[:], arith.SignedByte)
		for lane := range arith.WarpSize {
			for i := range 4 {
				row, col := lane/4+i/2*8, lane%4*2+i%2
				w.t[lane] = w.r[e[i]][lane]
				sum := int32(w.t[lane])
				x, y := t.ia[row*s.k:][:s.k], t.ib[col*s.k:][:s.k]
				for k, v := range x {
					sum += v * y[k]
				}
				w.r[d[i]][lane] = uint32(sum)
			}
		}
		return
	}
	value := arith.ElementValue(s.a)
	spread(w, a, s.k, s.a, 2, t.a[:], value)
	spread(w, b, s.k, s.b, 1, t.b[:], arith.ElementValue(s.b))
	if s.halves {
		s.multiplyHalves(w, d, e)
		return
	}
	for lane := range arith.WarpSize {
		g, q := lane/4, lane%4
		x0, x1 := t.a[g*s.k:][:s.k], t.a[(g+8)*s.k:][:s.k]
		y0, y1 := t.b[2*q*s.k:][:s.k], t.b[(2*q+1)*s.k:][:s.k]
		s0, s1 := arith.F32(w.r[e[0]][lane]), arith.F32(w.r[e[1]][lane])
		s2, s3 := arith.F32(w.r[e[2]][lane]), arith.F32(w.r[e[3]][lane])
		for k, u := range x0 {
			s0 += u * y0[k]
			s1 += u * y1[k]
			s2 += x1[k] * y0[k]
			s3 += x1[k] * y1[k]
		}
		w.r[d[0]][lane], w.r[d[1]][lane] = arith.B32(s0), arith.B32(s1)
		w.r[d[2]][lane], w.r[d[3]][lane] = arith.B32(s2), arith.B32(s3)
	}
}

// multiplyHalves accumulates in float32 and rounds to float16 at the end.
func (s *matrixShape) multiplyHalves(w *warp, d, e []slot) {
	t := w.tile
	for lane := range arith.WarpSize {
		for i := range 2 {
			x := t.a[(lane/4+8*i)*s.k:][:s.k]
			old := w.r[e[i]][lane]
			var out uint32
			for j := range 2 {
				y := t.b[(lane%4*2+j)*s.k:][:s.k]
				sum := arith.F16To(old >> (16 * j))
				for k, u := range x {
					sum += u * y[k]
				}
				out |= arith.F16From(float64(sum), arith.RoundNearest) << (16 * j)
			}
			w.r[d[i]][lane] = out
		}
	}
}

// spread lays the registers of a fragment out as rows along k. A has registers
// of two halves of its rows in turn, B of one.
func spread[T float32 | int32](w *warp, regs []slot, depth int, t arith.Type, halves int, out []T,
	value func(uint32, arith.Type) T,
) {
	width := t.Bits
	each := 32 / width
	for r, s := range regs {
		reg := &w.r[s]
		from := r / halves * 4 * each
		for lane, v := range reg {
			at := (lane/4+r%halves*8)*depth + from + lane%4*each
			for i := range each {
				out[at+i] = value(v>>(i*width), t)
			}
		}
	}
}

// buildLdmatrix decodes ldmatrix: eight rows of 16 bytes per matrix, their
// addresses from eight lanes each.
func buildLdmatrix(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	n, trans, sp := c.matrixForm(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	d, at := c.outs32(ops[0], n), c.memory(ops[1])
	a := &access{space: sp, size: 16}
	return inst{kind: kindConverge, step: func(w *warp, _ uint32) {
		ea := at.fill(w)
		for i := range n {
			var rows [8][]byte
			for r := range rows {
				rows[r] = w.bytes(a, 8*i+r, ea[8*i+r])
			}
			reg := &w.t
			if trans {
				for lane := range reg {
					row, col := lane%4*2, lane/4*2
					reg[lane] = uint32(le.Uint16(rows[row][col:])) | uint32(le.Uint16(rows[row+1][col:]))<<16
				}
			} else {
				for lane := range reg {
					reg[lane] = le.Uint32(rows[lane/4][lane%4*4:])
				}
			}
			w.r[d[i]] = *reg
		}
	}}
}

func buildStmatrix(c *compiler, m *syntax.Modifiers, ops []syntax.Operand) inst {
	n, trans, sp := c.matrixForm(m)
	if !c.operands(ops, 2, 2) {
		return inst{}
	}
	at, s := c.memory(ops[0]), c.ins32(ops[1], n)
	a := &access{space: sp, size: 16, write: true}
	return inst{kind: kindConverge, step: func(w *warp, _ uint32) {
		ea := at.fill(w)
		for i := range n {
			reg := &w.r[s[i]]
			for r := range 8 {
				row := w.bytes(a, 8*i+r, ea[8*i+r])
				for j := range 8 {
					lane, shift := r*4+j/2, 16*(j%2)
					if trans {
						lane, shift = j*4+r/2, 16*(r%2)
					}
					le.PutUint16(row[2*j:], uint16(reg[lane]>>shift))
				}
			}
		}
	}}
}

func (c *compiler) matrixForm(m *syntax.Modifiers) (n int, trans bool, sp space) {
	if !m.Has("sync") || !m.Has("aligned") || !m.Has("m8n8") || !m.Has("b16") {
		c.fail("unknown form of %s", m.Name)
	}
	n = map[string]int{"x1": 1, "x2": 2, "x4": 4}[m.Take("x1", "x2", "x4")]
	if n == 0 {
		c.fail("%s without a number of matrices", m.Name)
	}
	return n, m.Has("trans"), c.takeSpace(m)
}
