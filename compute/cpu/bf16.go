package cpu

import "parley/model/weights"

// brainFormOf returns the form of matrices of type t, nil if there is none.
func (c *CPU) brainFormOf(t weights.DType) *brainForm {
	k := c.kernels.brain
	switch {
	case k == nil:
		return nil
	case t == weights.BF16:
		return &brainForm{few: k.fewBF16[c.brainClass()]}
	case c.numerics != Fast:
		return nil
	case t == weights.F16:
		return &brainForm{open: k.roundF16, few: k.fewF16}
	case packings[t] != nil:
		return &brainForm{open: k.roundPacked[packings[t].kind], from: tiledFrom}
	}
	return nil
}

// stepsOf returns how many steps a number of columns takes.
func stepsOf(cols int) int { return (cols + stepColumns - 1) / stepColumns }

// brainClass returns the class of the backend's products of bfloat16.
func (c *CPU) brainClass() brainClass {
	if c.numerics == Fast {
		return brainRounded
	}
	return brainSplit
}

// fewRowFloats returns the size of a row in parts that are float32 each.
func fewRowFloats(cols, parts int) int { return stepsOf(cols) * parts * stepColumns }

// brainRowBytes returns the size of a row in the given number of parts. It is an odd number of
// cache lines: rows of a tile must not fight for the same places in the cache.
func brainRowBytes(cols, parts int) int {
	const line = 64
	return (stepsOf(cols)*parts*brainBytes/line | 1) * line
}

func (j *splitJob) run(_, from, to int) {
	in, class := &j.in, j.c.brainClass()
	split, floats, parts := j.c.kernels.brain.rows[class], j.c.kernels.brain.floats[class], class.parts()
	for r := from; r < to; r++ {
		src := in.x[r*in.stride:][:in.stride]
		if in.brain != nil {
			overSteps(in.brain[r*in.brainStride:], src, parts*brainBytes, split)
		}
		if in.few != nil {
			overSteps(in.few[r*in.fewStride:], src, parts*stepColumns, floats)
		}
	}
}

// overSteps splits a row into steps of the given size, as if it were padded with zeros.
func overSteps[T any](dst []T, src []float32, size int, split func(dst []T, src []float32, steps int)) {
	whole := len(src) / stepColumns
	split(dst, src, whole)
	if rest := src[whole*stepColumns:]; len(rest) > 0 {
		var last [stepColumns]float32
		copy(last[:], rest)
		split(dst[whole*size:], last[:], 1)
	}
}

// splitRows adds forms of bfloat16 to an input.
func (c *CPU) splitRows(in *input, f forms) {
	if f&asBrain != 0 {
		in.brainStride = brainRowBytes(in.stride, c.brainClass().parts())
		in.brain = grow(&c.brain, in.rows*in.brainStride)
	}
	if f&asFew != 0 {
		in.fewStride = fewRowFloats(in.stride, c.brainClass().parts())
		in.few = grow(&c.few, in.rows*in.fewStride)
	}
	j := &c.jobs.split
	j.c, j.in = c, *in
	c.overRows(j, in.rows, in.stride)
}

// brainy reports whether the matrix unit computes the product of the input in bfloat16.
func (p *product) brainy(in *input) bool {
	return p.w.brain != nil && in.rows >= p.w.brain.from
}

func (s *multiplySpan) brainy() bool {
	return s.first.brainy(&s.in) && (!s.gated || s.second.brainy(&s.in))
}

// brainPanels returns how many panels of a matrix pass over the rows together.
func (w *weight) brainPanels() int {
	steps := stepsOf(min(w.cols, brainCols))
	return max(1, brainOpen/(steps*panelStep))
}

// multiplyBrain computes the outputs of the panels from..to.
func (c *CPU) multiplyBrain(w *worker, in *input, p *product, from, to int) {
	c.multiplyBrainRows(w, in, p, from, to, 0, in.rows)
}

// multiplyBrainRows computes the outputs of the panels from..to for the rows start..end.
func (c *CPU) multiplyBrainRows(w *worker, in *input, p *product, from, to, start, end int) {
	if in.rows <= brainFew && in.few != nil && p.w.brain.few != nil {
		for panel := from; panel < to; panel++ {
			c.passFew(w, in, p, panel, start, end)
		}
		return
	}
	cols, most := brainCols, p.w.brainPanels()
	if in.rows <= brainSome {
		cols, most = brainPiece, 1
	}
	for first := from; first < to; first += most {
		for col := 0; col < p.w.cols; col += cols {
			c.passPiece(w, in, p, first, min(first+most, to), start, end, col, min(cols, p.w.cols-col))
		}
	}
}

// passPiece opens some columns of some panels, and passes the rows start..end over them.
func (c *CPU) passPiece(w *worker, in *input, p *product, from, to, start, end, col, cols int) {
	const pair = 2 * brainTile
	f, steps := p.w.brain, stepsOf(cols)
	size := steps * panelStep
	group := max(pair, brainPassed/(steps*c.brainClass().parts()*brainBytes)/pair*pair)
	var open []byte
	if f.open != nil {
		open = grow(&w.open, (to-from)*size)
		for panel := from; panel < to; panel++ {
			f.open(open[(panel-from)*size:], p.w.columns(panel, col), steps)
		}
	}
	for row := start; row < end; row += group {
		for panel := from; panel < to; panel++ {
			b := p.w.columns(panel, col)
			if f.open != nil {
				b = open[(panel-from)*size:]
			}
			c.passBrain(w, in, p, panel, row, min(row+group, end), b, col, steps)
		}
	}
}

// passFew multiplies few rows with a panel as it is stored.
func (c *CPU) passFew(w *worker, in *input, p *product, panel, start, end int) {
	out, stride := p.target(w, panel, start)
	p.w.brain.few(end-start, out, stride, in.few[start*in.fewStride:], in.fewStride, p.w.panel(panel),
		stepsOf(p.w.cols), false)
	if !p.isFull(panel) {
		p.deliver(w, panel, start, end-start)
	}
}

// columns returns a panel from the given column on.
func (w *weight) columns(panel, col int) []byte {
	if w.packing != nil {
		return w.panel(panel)[w.packing.bytes(col/quantBlock):]
	}
	return w.panel(panel)[w.stored.Type.RowBytes(col*panelOutputs):]
}

// passBrain multiplies the rows start..end with steps of a panel. If it is not full, that
// is done beside the output.
func (c *CPU) passBrain(w *worker, in *input, p *product, panel, start, end int, b []byte, col, steps int) {
	const pair = 2 * brainTile
	gemm := &c.kernels.brain.gemm[c.brainClass()]
	full, more := p.isFull(panel), col > 0
	act := col / stepColumns * c.brainClass().parts() * brainBytes
	for row, rows := start, 0; row < end; row += rows {
		n := 1
		if rows = min(pair, end-row); full && rows == pair {
			n = (end - row) / pair
			rows = n * pair
		}
		out, stride := p.target(w, panel, row)
		if more && !full {
			p.fetch(w, panel, row, rows)
		}
		last := min(rows, pair)
		kernel := gemm[(last-1)/brainTile]
		kernel(n, out, stride, in.brain[row*in.brainStride+act:], in.brainStride, b, steps, brainConfigs[last][:], more)
		if !full {
			p.deliver(w, panel, row, rows)
		}
	}
}

// brainConfigs are what the matrix unit is told for each number of rows: tiles 0
// and 1 are sums of the first 16 rows, 2 and 3 of the others, 4 and 5 are
// weights, 6 and 7 activations.
var brainConfigs = func() (all [2*brainTile + 1][64]byte) {
	for rows := range all {
		config := &all[rows]
		config[0] = 1 // the only palette there is
		first := min(rows, brainTile)
		for tile, n := range []int{first, first, rows - first, rows - first, brainTile, brainTile, first,
			rows - first} {
			if n > 0 {
				config[16+2*tile], config[48+tile] = 64, byte(n)
			}
		}
	}
	return all
}()
