package cpu

import (
	"fmt"

	"parley/compute"
)

func (j *quantizeJob) run(_, from, to int) {
	in := &j.in
	for r := from; r < to; r++ {
		q := in.quantized[r*in.qStride:][:in.qStride]
		j.c.kernels.quantize(q, q[in.facts():], in.x[r*in.stride:], in.stride/quantBlock)
	}
}

func (j *columnsJob) run(_, from, to int) {
	cols := j.in.stride
	for tile := from; tile < to; tile++ {
		out := j.in.columns[tile*tileRows*cols:][:tileRows*cols]
		for r := range tileRows {
			for k, v := range j.in.x[(tile*tileRows+r)*cols:][:cols] {
				out[k*tileRows+r] = v
			}
		}
	}
}

// prepare makes an input of rows that lie one after the other, in the forms that matrices take.
func (c *CPU) prepare(x []float32, rows, cols int, f forms) input {
	in := input{rows: rows, x: x[:rows*cols], stride: cols}
	if tiles := rows / tileRows; f&asColumns != 0 && c.kernels.wideF32 != nil && tiles > 1 {
		in.columns = grow(&c.columns, tiles*tileRows*cols)
		j := &c.jobs.columns
		j.in = in
		c.overRows(j, tiles, tileRows*cols)
	}
	if f&(asBrain|asFew) != 0 {
		c.splitRows(&in, f)
	}
	if f&asInts == 0 {
		return in
	}
	in.qStride = quantizedBytes(cols)
	in.quantized = grow(&c.quantized, (rows+tileRows)*in.qStride) // a tile may reach beyond the last row
	j := &c.jobs.quantize
	j.c, j.in = c, in
	c.overRows(j, rows, cols)
	return in
}

// product checks that a matrix fits its input and output, which lies in rows of the given stride.
func (c *CPU) product(m, bias compute.Weight, cols int, out []float32, stride int) product {
	w := m.(*weight)
	if w.cols != cols || w.rows > stride {
		panic(fmt.Sprintf("cpu: a matrix of %d by %d cannot turn %d columns into %d", w.rows, w.cols, cols, stride))
	}
	p := product{w: w, out: out, stride: stride}
	if bias != nil {
		p.bias = bias.(*weight).vector[:w.rows]
	}
	return p
}

// add adds a span to the current multiplication.
func (j *multiplyJob) add(s multiplySpan) { j.spans = append(j.spans, s) }

// Linear computes several projections of the same input in one pass.
func (c *CPU) Linear(src compute.Buffer, ps []compute.Projection) {
	var f forms
	for i := range ps {
		f |= ps[i].W.(*weight).takes(len(c.rows))
	}
	s := src.(*buffer)
	in := c.prepare(s.data, len(c.rows), s.cols, f)
	for i := range ps {
		out := ps[i].Out.(*buffer)
		c.jobs.multiply.add(
			multiplySpan{in: in,
				first: c.product(ps[i].W, ps[i].Bias, s.cols, out.data[:len(c.rows)*out.cols], out.cols)})
	}
	c.multiply()
}

// GatedMLP computes gate and up together, and then down.
func (c *CPU) GatedMLP(dst, src compute.Buffer, m *compute.MLP) {
	s, d := src.(*buffer), dst.(*buffer)
	rows := len(c.rows)
	in := c.prepare(s.data, rows, s.cols, m.Gate.(*weight).takes(rows)|m.Up.(*weight).takes(rows))
	width := c.reserveHidden(rows, m)
	c.addGated(in, m, 0, width)
	c.multiply()
	inner := c.prepare(c.hidden, rows, width, m.Down.(*weight).takes(rows))
	c.jobs.multiply.add(multiplySpan{in: inner,
		first: c.product(m.Down, m.DownBias, width, d.data[:rows*d.cols], d.cols)})
	c.multiply()
}

// reserveHidden makes room for the inside of an MLP and returns its width.
func (c *CPU) reserveHidden(rows int, m *compute.MLP) int {
	width, _ := m.Gate.Dims()
	grow(&c.hidden, rows*width)
	grow(&c.up, rows*width)
	return width
}

// addGated adds the first half of an MLP, whose results begin at the given hidden row.
func (c *CPU) addGated(in input, m *compute.MLP, row, width int) {
	c.jobs.multiply.add(multiplySpan{
		in:     in,
		first:  c.product(m.Gate, m.GateBias, in.stride, c.hidden[row*width:], width),
		second: c.product(m.Up, m.UpBias, in.stride, c.up[row*width:], width),
		gated:  true,
		act:    m.Act,
	})
}

func (j *gatherJob) run(_, from, to int) {
	for i := from; i < to; i++ {
		copy(j.dst[i*j.src.cols:], j.src.row(int(j.source[i])))
	}
}

// gatherRows returns the given rows of src, one after the other.
func (c *CPU) gatherRows(src *buffer, rows []int32) []float32 {
	j := &c.jobs.gather
	j.dst, j.src, j.source = grow(&c.gathered, len(rows)*src.cols), src, rows
	c.overRows(j, len(rows), src.cols)
	return j.dst
}

// ReadRows copies the step's rows.
func (c *CPU) ReadRows(dst []float32, src compute.Buffer) {
	s := src.(*buffer)
	copy(dst, s.data[:len(c.rows)*s.cols])
}

// Logits multiplies the step's output rows with the table.
func (c *CPU) Logits(dst []float32, src compute.Buffer, table compute.Weight) {
	s, w, rows := src.(*buffer), table.(*weight), len(c.step.Outputs)
	if rows == 0 {
		return
	}
	x := c.gatherRows(s, c.step.Outputs)
	in := c.prepare(x, rows, s.cols, w.takes(rows))
	c.jobs.multiply.add(multiplySpan{in: in, first: c.product(table, nil, s.cols, dst[:rows*w.rows], w.rows)})
	c.multiply()
}
